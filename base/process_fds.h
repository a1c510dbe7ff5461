// Descriptors that belong to one process alone: a child of fork(2) does not keep them. FD_CLOEXEC
// closes a descriptor only in a child that calls exec.
//
// A socket stays open until every process that inherited it has closed it. The peer of a process
// that dies would see no end of its connection while a forked child lives, such as the workers of
// PyTorch's DataLoader.
#pragma once

#include <cstdint>

namespace gdr::process_fds {

// The registry of these descriptors, for UniqueFd. While a Hold exists, forks of this process wait,
// so that what is open and what is registered agree in the child. Holds must be short and must not
// fork.
class Hold {
 public:
  Hold();
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // Registers a descriptor that was opened during this Hold. From then on only UniqueFd closes it.
  void add(int fd);
  void remove(int fd);
};

// How many forks lead to this process from the one that loaded this library, plus one. A descriptor
// that was registered under another number is closed here, and its number may be that of another
// file.
uint32_t generation();

}  // namespace gdr::process_fds
