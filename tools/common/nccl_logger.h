// The logger that a plugin gets from us: reads NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE
// and prints lines as NCCL does, to stderr unless a file is named.
#pragma once

#include <string>

#include "plugin/abi/nccl_types.h"

namespace gdr::tools {

struct LogFilter {
  abi::ncclDebugLogLevel level = abi::kLogNone;
  unsigned long subsystems = 0;
};

// debug and subsystems are the values of NCCL_DEBUG and NCCL_DEBUG_SUBSYS; null when unset.
LogFilter parse_log_filter(const char* debug, const char* subsystems);

// %h becomes the host's name and %p the process id, as in NCCL_DEBUG_FILE.
std::string expand_log_file(const std::string& pattern);

// Pass this to init(). Reads the environment on its first call.
void nccl_logger(abi::ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                 const char* format, ...) __attribute__((format(printf, 5, 6)));

// The number that the lines carry in brackets, where NCCL prints the CUDA device.
void set_logger_device(int device);

std::string host_name();

}  // namespace gdr::tools
