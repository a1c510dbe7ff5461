#include "plugin/guarded.h"

#include "base/log.h"

namespace gdr::plugin {

void log_exception(const char* call, const std::exception& error) noexcept {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    GDR_WARN("%s: out of memory. Fix: raise the memory limit of the process or its control group",
             call);
  } else if (const auto* of_system = dynamic_cast<const std::system_error*>(&error)) {
    // pthread_create fails with EAGAIN at the limits of the user and of the control group.
    const bool is_limit = of_system->code() == std::errc::resource_unavailable_try_again;
    GDR_WARN("%s: %s (error %d)%s", call, error.what(), of_system->code().value(),
             is_limit ? ". Fix: raise the limit of threads (ulimit -u, or pids.max of the control "
                        "group)"
                      : "");
  } else {
    GDR_WARN("%s: unexpected exception: %s", call, error.what());
  }
}

}  // namespace gdr::plugin
