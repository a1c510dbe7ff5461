#include "plugin/guarded.h"

#include "base/log.h"

namespace gdr::plugin {
namespace {

// pthread_create fails with EAGAIN at the limits of the user and of the control group.
const char* fix_of(const std::error_code& code) {
  return code == std::errc::resource_unavailable_try_again
             ? ". Fix: raise the limit of threads (ulimit -u, or pids.max of the control group)"
             : "";
}

}  // namespace

void log_no_memory(const char* call) noexcept {
  GDR_WARN("%s: out of memory. Fix: raise the memory limit of the process or its control group",
           call);
}

void log_system_error(const char* call, const std::system_error& error) noexcept {
  GDR_WARN("%s: %s (error %d)%s", call, error.what(), error.code().value(), fix_of(error.code()));
}

void log_unexpected(const char* call, const std::exception& error) noexcept {
  GDR_WARN("%s: unexpected exception: %s", call, error.what());
}

}  // namespace gdr::plugin
