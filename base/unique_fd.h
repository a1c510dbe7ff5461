// An owned file descriptor, closed by the destructor.
#pragma once

#include <unistd.h>

#include <utility>

namespace gdr {

// Movable. -1 means none: open(2)'s and socket(2)'s result can be passed in unchecked.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives up ownership and returns the descriptor, which the caller has to close.
  int release() { return std::exchange(fd_, -1); }
  // Closes the descriptor, if any, and takes over `fd`.
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace gdr
