#include "index/pmem/internal/metadata_guard.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string_view>

#include "index/pmem/last_words.h"

namespace lodgekv::pmem {
namespace {

struct Guarded {
  int signal;
  std::string_view what;
};

// SIGXCPU is sent by the timer below.
constexpr std::array<Guarded, 5> kGuarded{{{SIGSEGV, "it refers to memory that is not there"},
                                           {SIGFPE, "it divides by zero"},
                                           {SIGILL, "it makes no sense"},
                                           {SIGABRT, "libpmemobj gave up on it"},
                                           {SIGXCPU, "it leads round in a loop"}}};

std::array<struct sigaction, kGuarded.size()> g_before;
std::atomic<bool> g_guarding{false};
constinit thread_local const char* t_inside = nullptr;
constinit thread_local timer_t t_timer = nullptr;  // its first one is null as well
constinit thread_local bool t_has_timer = false;

[[noreturn]] void Refuse(std::string_view what) {
  LastWords words;
  words.Add("lodgekv pool: ");
  words.Add(t_inside);
  words.Add(": libpmemobj's own part of it is damaged: ");
  words.Add(what);
  words.Add(". The process ends with exit code ");
  words.AddNumber(kExitDamagedMetadata);
  words.Add(
      " and changes nothing more. A restart does not help: see \"Damage in libpmemobj's own part\" "
      "in docs/crash_model.md\n");
  words.End(kExitDamagedMetadata);
}

// Caused by this thread, and not sent by a process.
bool IsOwn(int signal, const siginfo_t& info) {
  if (signal == SIGABRT) return info.si_code == SI_TKILL;
  if (signal == SIGXCPU) return info.si_code == SI_TIMER;
  return info.si_code > 0;
}

void OnSignal(int signal, siginfo_t* info, void*) {
  const bool own = IsOwn(signal, *info);
  for (size_t i = 0; i < kGuarded.size(); ++i) {
    if (kGuarded[i].signal != signal) continue;
    if (own && t_inside != nullptr) Refuse(kGuarded[i].what);
    // The timer of a scope that has just ended.
    if (own && signal == SIGXCPU) return;
    // The fault is retried, abort() continues: as if there were no handler.
    sigaction(signal, &g_before[i], nullptr);
    if (!own) raise(signal);
  }
}

void Listen() {
  struct sigaction action {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kGuarded.size(); ++i) {
    sigaction(kGuarded[i].signal, &action, &g_before[i]);
  }
  g_guarding.store(true, std::memory_order_release);
}

void SetTimer(int seconds) {
  const itimerspec limit{{0, 0}, {seconds, 0}};
  if (t_has_timer) timer_settime(t_timer, 0, &limit, nullptr);
}

// Of this thread's processor time: a slow medium is not a loop.
void StartTimer(int seconds) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGXCPU;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  // Without a timer loops are not detected.
  t_has_timer = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &t_timer) == 0;
  SetTimer(seconds);
}

}  // namespace

void GuardMetadata() {
  static std::once_flag listening;
  std::call_once(listening, Listen);
}

InsideLibpmemobj::InsideLibpmemobj(const char* path, int most_cpu_seconds)
    : most_cpu_seconds_(most_cpu_seconds) {
  if (!g_guarding.load(std::memory_order_acquire)) return;
  t_inside = path;
  StartTimer(most_cpu_seconds_);
}

InsideLibpmemobj::~InsideLibpmemobj() {
  if (t_inside == nullptr) return;
  if (t_has_timer) timer_delete(t_timer);
  t_has_timer = false;
  t_inside = nullptr;
}

void InsideLibpmemobj::NoteProgress() { SetTimer(most_cpu_seconds_); }

}  // namespace lodgekv::pmem
