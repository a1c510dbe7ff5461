// The one log sink of the process. The plugin points it at NCCL's logger, the tools at stderr.
#pragma once

#include <atomic>
#include <cstdarg>
#include <cstdint>

namespace gdr::log {

// Values are NCCL's (ncclDebugLogLevel), so that the plugin can pass them through.
enum class Level : int { kWarn = 2, kInfo = 3, kTrace = 5 };

// Values are NCCL's subsystem bits (NCCL_DEBUG_SUBSYS).
enum Subsystem : unsigned long { kInit = 0x1, kNet = 0x10, kEnv = 0x80, kReg = 0x2000 };

using Sink = void (*)(Level level, unsigned long subsystems, const char* file, int line,
                      const char* text);

// Null silences. Safe to call at any time, from any thread.
void set_sink(Sink sink);

// Formats printf-style and hands one line, prefixed "NET/GDR : ", to the sink.
void write(Level level, unsigned long subsystems, const char* file, int line, const char* format,
           ...) __attribute__((format(printf, 5, 6)));

}  // namespace gdr::log

#define GDR_WARN(...) \
  ::gdr::log::write(::gdr::log::Level::kWarn, ~0ul, __FILE__, __LINE__, __VA_ARGS__)
#define GDR_INFO(subsystems, ...) \
  ::gdr::log::write(::gdr::log::Level::kInfo, (subsystems), __FILE__, __LINE__, __VA_ARGS__)
#define GDR_TRACE(subsystems, ...) \
  ::gdr::log::write(::gdr::log::Level::kTrace, (subsystems), __FILE__, __LINE__, __VA_ARGS__)
