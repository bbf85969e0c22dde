#include "tests/crash/lab/hands.h"

#include <semaphore>
#include <thread>

namespace lodgekv::test {

struct Hands::Hand {
  std::binary_semaphore given{0};
  std::binary_semaphore done{0};
  const std::function<void()>* work = nullptr;  // null at the end
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

Hands::Hands(unsigned threads) {
  for (unsigned i = 1; i < threads; ++i) {
    auto& hand = *hands_.emplace_back(std::make_unique<Hand>());
    hand.thread = std::thread([&hand] { hand.Run(); });
  }
}

Hands::~Hands() {
  for (auto& hand : hands_) {
    hand->work = nullptr;
    hand->given.release();
    hand->thread.join();
  }
}

void Hands::Do(uint64_t number, const std::function<void()>& work) {
  if (current_ != 0 || number == 0) return work();
  Hand& hand = *hands_[number - 1];
  hand.work = &work;
  current_ = number;
  hand.given.release();
  hand.done.acquire();
  current_ = 0;
}

}  // namespace lodgekv::test
