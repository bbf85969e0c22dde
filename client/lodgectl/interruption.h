// Ctrl-C and SIGTERM as a request to stop and report progress. The second one ends the process.
#pragma once

namespace lodgekv::lodgectl {

// One at a time; its destructor restores the signals.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // 0: no signal has arrived.
  int signal() const;

  // Readable once a signal has arrived.
  int fd() const;
};

}  // namespace lodgekv::lodgectl
