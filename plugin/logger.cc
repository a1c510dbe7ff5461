#include "plugin/logger.h"

#include <dlfcn.h>

#include <atomic>

#include "base/log.h"

namespace gdr::plugin {
namespace {

std::atomic<abi::ncclDebugLogger_t> g_logger{nullptr};

void log_to_nccl(log::Level level, unsigned long subsystems, const char* file, int line,
                 const char* text) {
  abi::ncclDebugLogger_t logger = g_logger.load(std::memory_order_acquire);
  if (logger == nullptr) return;
  logger(static_cast<abi::ncclDebugLogLevel>(level), subsystems, file, line, "%s", text);
}

// Adds a reference that is never given back. RTLD_NOLOAD finds the loaded library by the name that
// the loader knows, even if its file was replaced meanwhile. There is nothing to keep where NCCL is
// linked into the executable, for which the loader has no library of that name.
void keep_library_of(abi::ncclDebugLogger_t logger) {
  Dl_info library;
  if (dladdr(reinterpret_cast<void*>(logger), &library) == 0 || library.dli_fname == nullptr)
    return;
  (void)dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace

void use_logger(abi::ncclDebugLogger_t logger) {
  if (logger != nullptr && logger != g_logger.load(std::memory_order_acquire)) {
    keep_library_of(logger);
  }
  g_logger.store(logger, std::memory_order_release);
  log::set_sink(log_to_nccl);
}

}  // namespace gdr::plugin
