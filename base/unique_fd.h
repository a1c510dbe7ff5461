// An owned file descriptor, closed by the destructor.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "base/process_fds.h"

namespace gdr {

// Movable. -1 means none: open(2)'s and socket(2)'s result can be passed in unchecked.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  // Owns what open() returns. A forked child does not keep that descriptor: it is closed there, and
  // the child's copy of this object holds none. open() runs while forks wait; it must not block.
  // errno is as open() left it.
  template <class Open>
  static UniqueFd of_this_process(const Open& open) {
    process_fds::Hold hold;
    UniqueFd opened(open());
    if (opened.fd_ < 0) return opened;
    hold.add(opened.fd_);
    opened.generation_ = process_fds::generation();
    return opened;
  }
  UniqueFd(UniqueFd&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), generation_(std::exchange(other.generation_, 0)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this == &other) return *this;
    reset();
    std::swap(fd_, other.fd_);
    std::swap(generation_, other.generation_);
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return is_of_parent() ? -1 : fd_; }
  bool valid() const { return get() >= 0; }
  // Gives up ownership and returns the descriptor, which the caller has to close.
  int release() { return give_up(/*close=*/false); }
  // Closes the descriptor, if any, and takes over `fd`.
  void reset(int fd = -1) {
    give_up(/*close=*/true);
    fd_ = fd;
  }

 private:
  bool is_of_parent() const { return generation_ != 0 && generation_ != process_fds::generation(); }
  int give_up(bool close);

  int fd_ = -1;
  uint32_t generation_ = 0;  // of_this_process: of the process that opened it; else 0
};

inline int UniqueFd::give_up(bool close) {
  const int fd = get();
  const bool registered = std::exchange(generation_, 0) != 0;
  fd_ = -1;
  if (fd < 0) return -1;
  if (registered) {
    process_fds::Hold hold;
    hold.remove(fd);
    if (close) ::close(fd);
  } else if (close) {
    ::close(fd);
  }
  return fd;
}

}  // namespace gdr
