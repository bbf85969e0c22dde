// For tests: a file system of a chosen size, which only this process sees and which disappears with
// it.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

namespace lodgekv::pmem {

class SmallDisk {
 public:
  // Mounted over the folder `at`.
  SmallDisk(std::string at, uint64_t bytes) : at_(std::move(at)) {
    if (!OwnMounts()) return;
    const std::string options = "size=" + std::to_string(bytes);
    mounted_ = mount("lodgekv-test", at_.c_str(), "tmpfs", 0, options.c_str()) == 0;
    if (!mounted_) why_ = std::string("mount: ") + std::strerror(errno);
  }
  ~SmallDisk() {
    if (mounted_) umount2(at_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::string& why_not() const { return why_; }

 private:
  // Root creates a mount namespace; others need a user namespace first.
  bool OwnMounts() {
    const uid_t user = getuid();
    const gid_t group = getgid();
    if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      why_ = std::string("unshare: ") + std::strerror(errno);
      return false;
    }
    if (user != 0) {
      std::ofstream("/proc/self/setgroups") << "deny";
      std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
      std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
    }
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) return true;
    why_ = std::string("mount --make-rprivate: ") + std::strerror(errno);
    return false;
  }

  const std::string at_;
  bool mounted_ = false;
  std::string why_;
};

}  // namespace lodgekv::pmem
