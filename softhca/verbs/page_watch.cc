#include "softhca/verbs/page_watch.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"
#include "softhca/fabric/shared_layout.h"

namespace softhca {

PageWatch* PageWatch::create(Lost lost) {
  // Without kernel mode no privilege is needed (userfaultfd(2)).
  gdr::UniqueFd fd = gdr::UniqueFd::of_this_process([] {
    return static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  });
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP;
  if (!fd.valid() || ioctl(fd.get(), UFFDIO_API, &api) != 0) {
    fprintf(stderr, "softhca: stale registrations are not noticed: userfaultfd: %s\n",
            strerror(errno));
    return nullptr;
  }
  auto* watch = new PageWatch(std::move(fd), std::move(lost));
  const gdr::BlockedSignals blocked;
  std::thread([watch] { watch->run(); }).detach();
  return watch;
}

void PageWatch::add(uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  uffdio_register range = {};
  range.range.start = address / kPage * kPage;
  range.range.len = align_up(address + bytes, kPage) - range.range.start;
  // Nothing is ever protected, so that no access faults.
  range.mode = UFFDIO_REGISTER_MODE_WP;
  (void)ioctl(fd_.get(), UFFDIO_REGISTER, &range);
}

void PageWatch::run() {
  for (;;) {
    pollfd readable = {fd_.get(), POLLIN, 0};
    if (readable.fd < 0 || (poll(&readable, 1, -1) < 0 && errno != EINTR)) return;
    const std::lock_guard lock(mutex_);
    uffd_msg event = {};
    // The program's call returns once its event was read.
    while (read(fd_.get(), &event, sizeof event) == sizeof event) {
      if (event.event == UFFD_EVENT_REMAP) {
        lost_(event.arg.remap.from, event.arg.remap.from + event.arg.remap.len);
      } else {
        lost_(event.arg.remove.start, event.arg.remove.end);
      }
    }
  }
}

}  // namespace softhca
