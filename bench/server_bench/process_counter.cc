// Preloaded into a server: counts its allocations, copies and calls of the system in the file that
// PROCESS_COUNTS names (process_counts.h). It needs no privilege, so it works in any container.
//
// INVARIANT  Nothing here allocates, or copies by memcpy: it would call itself.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>
#include <cstdlib>

#include "bench/server_bench/process_counts.h"

namespace {

using lodgekv::server_bench::ProcessCounts;

constinit ProcessCounts uncounted;
// Until the library's start, and without a file, counts go nowhere.
constinit ProcessCounts* counts = &uncounted;

void Add(uint64_t& count, uint64_t more) { __atomic_fetch_add(&count, more, __ATOMIC_RELAXED); }

// The function that would have been called.
template <class Function>
struct Next {
  Function* operator()(const char* name) {
    if (found == nullptr) found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    return found;
  }
  Function* found = nullptr;
};

__attribute__((constructor)) void StartCounting() {
  const char* path = std::getenv(lodgekv::server_bench::kProcessCountsVariable);
  if (path == nullptr) return;
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(ProcessCounts)) != 0) std::abort();
  void* mapped = mmap(nullptr, sizeof(ProcessCounts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) std::abort();
  counts = static_cast<ProcessCounts*>(mapped);
  close(fd);
}

void* Allocate(size_t bytes) {
  static constinit Next<void*(size_t)> next;
  Add(counts->allocations, 1);
  Add(counts->allocated_bytes, bytes);
  return next("malloc")(bytes);
}

void* AllocateAligned(size_t alignment, size_t bytes) {
  static constinit Next<void*(size_t, size_t)> next;
  Add(counts->allocations, 1);
  Add(counts->allocated_bytes, bytes);
  return next("aligned_alloc")(alignment, bytes);
}

void* OrEnd(void* space) {
  if (space == nullptr) std::abort();
  return space;
}

void CountCopy(size_t bytes) {
  Add(counts->copies, 1);
  Add(counts->copied_bytes, bytes);
}

}  // namespace

// The names are libc's, and those that C++ gives to operator new.
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
extern "C" {

void* malloc(size_t bytes) { return Allocate(bytes); }
void* _Znwm(size_t bytes) { return OrEnd(Allocate(bytes)); }
void* _Znam(size_t bytes) { return OrEnd(Allocate(bytes)); }
void* _ZnwmRKSt9nothrow_t(size_t bytes, const void*) { return Allocate(bytes); }
void* _ZnamRKSt9nothrow_t(size_t bytes, const void*) { return Allocate(bytes); }
void* _ZnwmSt11align_val_t(size_t bytes, size_t alignment) {
  return OrEnd(AllocateAligned(alignment, bytes));
}
void* _ZnamSt11align_val_t(size_t bytes, size_t alignment) {
  return OrEnd(AllocateAligned(alignment, bytes));
}
void* aligned_alloc(size_t alignment, size_t bytes) { return AllocateAligned(alignment, bytes); }

void* calloc(size_t count, size_t bytes) {
  static constinit Next<void*(size_t, size_t)> next;
  Add(counts->allocations, 1);
  Add(counts->allocated_bytes, count * bytes);
  return next("calloc")(count, bytes);
}

void* realloc(void* space, size_t bytes) {
  static constinit Next<void*(void*, size_t)> next;
  Add(counts->allocations, 1);
  Add(counts->allocated_bytes, bytes);
  return next("realloc")(space, bytes);
}

int posix_memalign(void** space, size_t alignment, size_t bytes) {
  static constinit Next<int(void**, size_t, size_t)> next;
  Add(counts->allocations, 1);
  Add(counts->allocated_bytes, bytes);
  return next("posix_memalign")(space, alignment, bytes);
}

void* memcpy(void* to, const void* from, size_t bytes) {
  static constinit Next<void*(void*, const void*, size_t)> next;
  CountCopy(bytes);
  return next("memcpy")(to, from, bytes);
}

void* memmove(void* to, const void* from, size_t bytes) {
  static constinit Next<void*(void*, const void*, size_t)> next;
  CountCopy(bytes);
  return next("memmove")(to, from, bytes);
}

void* __memcpy_chk(void* to, const void* from, size_t bytes, size_t room) {
  static constinit Next<void*(void*, const void*, size_t, size_t)> next;
  CountCopy(bytes);
  return next("__memcpy_chk")(to, from, bytes, room);
}

void* __memmove_chk(void* to, const void* from, size_t bytes, size_t room) {
  static constinit Next<void*(void*, const void*, size_t, size_t)> next;
  CountCopy(bytes);
  return next("__memmove_chk")(to, from, bytes, room);
}

#define LODGEKV_COUNTED(Result, name, parameters, arguments) \
  Result name parameters {                                   \
    static constinit Next<Result parameters> next;           \
    Add(counts->system_calls, 1);                            \
    return next(#name) arguments;                            \
  }

// All that a server makes for a call, as perf saw it, and what it might come to make.
LODGEKV_COUNTED(ssize_t, read, (int fd, void* to, size_t bytes), (fd, to, bytes))
LODGEKV_COUNTED(ssize_t, write, (int fd, const void* from, size_t bytes), (fd, from, bytes))
LODGEKV_COUNTED(ssize_t, readv, (int fd, const iovec* to, int parts), (fd, to, parts))
LODGEKV_COUNTED(ssize_t, writev, (int fd, const iovec* from, int parts), (fd, from, parts))
LODGEKV_COUNTED(ssize_t, pread, (int fd, void* to, size_t bytes, off_t at), (fd, to, bytes, at))
LODGEKV_COUNTED(ssize_t, pwrite, (int fd, const void* from, size_t bytes, off_t at),
                (fd, from, bytes, at))
LODGEKV_COUNTED(ssize_t, recv, (int fd, void* to, size_t bytes, int flags), (fd, to, bytes, flags))
LODGEKV_COUNTED(ssize_t, recvmsg, (int fd, msghdr* to, int flags), (fd, to, flags))
LODGEKV_COUNTED(ssize_t, send, (int fd, const void* from, size_t bytes, int flags),
                (fd, from, bytes, flags))
LODGEKV_COUNTED(ssize_t, sendmsg, (int fd, const msghdr* from, int flags), (fd, from, flags))
LODGEKV_COUNTED(int, epoll_wait, (int fd, epoll_event* to, int most, int ms), (fd, to, most, ms))
LODGEKV_COUNTED(int, epoll_ctl, (int fd, int what, int of, epoll_event* event),
                (fd, what, of, event))
LODGEKV_COUNTED(int, poll, (pollfd * polled, nfds_t count, int ms), (polled, count, ms))
LODGEKV_COUNTED(int, eventfd_read, (int fd, uint64_t* value), (fd, value))
LODGEKV_COUNTED(int, eventfd_write, (int fd, uint64_t value), (fd, value))
LODGEKV_COUNTED(int, setsockopt, (int fd, int level, int name, const void* value, socklen_t bytes),
                (fd, level, name, value, bytes))
LODGEKV_COUNTED(int, getsockopt, (int fd, int level, int name, void* value, socklen_t* bytes),
                (fd, level, name, value, bytes))
LODGEKV_COUNTED(int, getpeername, (int fd, sockaddr* address, socklen_t* bytes),
                (fd, address, bytes))
LODGEKV_COUNTED(int, sched_yield, (), ())
LODGEKV_COUNTED(int, madvise, (void* begin, size_t bytes, int advice), (begin, bytes, advice))
LODGEKV_COUNTED(int, msync, (void* begin, size_t bytes, int flags), (begin, bytes, flags))
LODGEKV_COUNTED(int, fdatasync, (int fd), (fd))
LODGEKV_COUNTED(int, fsync, (int fd), (fd))
// Futexes of absl, and whatever has no function of its own. Six arguments, as the kernel has.
long syscall(long number, ...) {
  static constinit Next<long(long, ...)> next;
  Add(counts->system_calls, 1);
  va_list given;
  va_start(given, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(given, long);
  va_end(given);
  return next("syscall")(number, arguments[0], arguments[1], arguments[2], arguments[3],
                         arguments[4], arguments[5]);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
