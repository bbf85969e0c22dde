// Ctrl-C and SIGTERM as a request to stop and say how far it got. The second one ends the process.
#pragma once

namespace lodgekv::lodgectl {

// One at a time; with its end the signals do as before.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // 0: none has come.
  int signal() const;

  // Readable once one has come.
  int fd() const;
};

}  // namespace lodgekv::lodgectl
