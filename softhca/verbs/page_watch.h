// Notices that registered host memory is unmapped, moved or given back while its registration
// lives. An HCA goes on with the old pages, which the program does not see any more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/unique_fd.h"

namespace softhca {

class PageWatch {
 public:
  // Called with the addresses that lost their pages, in a thread of the watch's own. The program is
  // inside munmap() or its like at that time.
  using Lost = std::function<void(uint64_t begin, uint64_t end)>;

  // Null, with a line on stderr, where the system has no userfaultfd for this process, as with the
  // seccomp filter of Docker. It is never destroyed.
  static PageWatch* create(Lost lost);

  // Watches the pages of a range. Mappings of ordinary files are not watched. What was lost before
  // the call has been reported when it returns.
  void add(uint64_t address, uint64_t bytes);

 private:
  PageWatch(gdr::UniqueFd fd, Lost lost) : fd_(std::move(fd)), lost_(std::move(lost)) {}
  ~PageWatch() = delete;
  void run();

  const gdr::UniqueFd fd_;
  const Lost lost_;
  std::mutex mutex_;  // held from reading an event until it is reported
};

}  // namespace softhca
