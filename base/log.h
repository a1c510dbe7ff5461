// Logging. All lines of the process go to one sink: in the plugin that is NCCL's logger, in the
// tools stderr. Use the macros GDR_WARN, GDR_INFO and GDR_TRACE; arguments are evaluated at any
// level.
#pragma once

#include <atomic>
#include <cstdarg>
#include <cstdint>

namespace gdr::log {

// The values are those of NCCL's ncclDebugLogLevel. NCCL_DEBUG chooses what is printed. kWarn is
// for what the user has to act on.
enum class Level : int { kWarn = 2, kInfo = 3, kTrace = 5 };

// Bits of NCCL's subsystems (ncclDebugLogSubSys), by which NCCL_DEBUG_SUBSYS filters INFO and
// TRACE.
enum Subsystem : unsigned long { kInit = 0x1, kNet = 0x10, kEnv = 0x80, kReg = 0x2000 };

using Sink = void (*)(Level level, unsigned long subsystems, const char* file, int line,
                      const char* text);

// Sets the sink; null discards all lines. Thread-safe. A line that another thread writes meanwhile
// may still go to the former sink.
void set_sink(Sink sink);

// Formats a line as printf does, prefixes it with "NET/GDR : " and passes it to the sink. Lines are
// cut after 2 KiB.
void write(Level level, unsigned long subsystems, const char* file, int line, const char* format,
           ...) __attribute__((format(printf, 5, 6)));

// Writes the text of a finding, prefixed with "NET/GDR [kind] : ".
void write_of_kind(Level level, unsigned long subsystems, const char* kind, const char* text);

}  // namespace gdr::log

#define GDR_WARN(...) \
  ::gdr::log::write(::gdr::log::Level::kWarn, ~0ul, __FILE__, __LINE__, __VA_ARGS__)
#define GDR_INFO(subsystems, ...) \
  ::gdr::log::write(::gdr::log::Level::kInfo, (subsystems), __FILE__, __LINE__, __VA_ARGS__)
#define GDR_TRACE(subsystems, ...) \
  ::gdr::log::write(::gdr::log::Level::kTrace, (subsystems), __FILE__, __LINE__, __VA_ARGS__)
