// The logger that the tools pass to a plugin. It reads NCCL_DEBUG, NCCL_DEBUG_SUBSYS and
// NCCL_DEBUG_FILE and prints lines in NCCL's format, to standard error unless a file is given.
#pragma once

#include <string>

#include "plugin/abi/nccl_types.h"

namespace gdr::tools {

// Which lines are printed.
struct LogFilter {
  abi::ncclDebugLogLevel level = abi::kLogNone;
  unsigned long subsystems = 0;
};

// What nccl_logger() prints where NCCL_DEBUG is unset. NCCL prints nothing then.
enum class DefaultLog { kNothing, kWarnings };

// Sets that default, kNothing at first. Has no effect after nccl_logger()'s first call.
void set_default_log(DefaultLog choice);

// Whether nccl_logger() prints warnings.
bool logs_warnings();

// Parses the values of NCCL_DEBUG and NCCL_DEBUG_SUBSYS as NCCL does (src/debug.cc); null when
// unset.
LogFilter parse_log_filter(const char* debug, const char* subsystems);

// Replaces %h by the host's name and %p by the process id, as NCCL does in NCCL_DEBUG_FILE.
std::string expand_log_file(const std::string& pattern);

// The ncclDebugLogger_t for init(). It reads the process environment on its first call.
void nccl_logger(abi::ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                 const char* format, ...) __attribute__((format(printf, 5, 6)));

// Sets the number in the brackets of each line, where NCCL prints the CUDA device.
void set_logger_device(int device);

// Returns the host's name without its domain.
std::string host_name();

}  // namespace gdr::tools
