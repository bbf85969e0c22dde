#include "tests/crash/lab/workers.h"

#include <semaphore>
#include <thread>

namespace lodgekv::test {

struct Workers::Worker {
  std::binary_semaphore given{0};
  std::binary_semaphore done{0};
  const std::function<void()>* work = nullptr;  // null: stop
  std::thread thread;

  void Run() {
    for (;;) {
      given.acquire();
      if (work == nullptr) return;
      (*work)();
      done.release();
    }
  }
};

Workers::Workers(unsigned threads) {
  for (unsigned i = 1; i < threads; ++i) {
    auto& worker = *workers_.emplace_back(std::make_unique<Worker>());
    worker.thread = std::thread([&worker] { worker.Run(); });
  }
}

Workers::~Workers() {
  for (auto& worker : workers_) {
    worker->work = nullptr;
    worker->given.release();
    worker->thread.join();
  }
}

void Workers::Do(uint64_t number, const std::function<void()>& work) {
  if (current_ != 0 || number == 0) return work();
  Worker& worker = *workers_[number - 1];
  worker.work = &work;
  current_ = number;
  worker.given.release();
  worker.done.acquire();
  current_ = 0;
}

}  // namespace lodgekv::test
