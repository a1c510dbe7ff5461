#include "base/log.h"

#include <cstdio>

namespace gdr::log {
namespace {
std::atomic<Sink> g_sink{nullptr};
constexpr char kPrefix[] = "NET/GDR : ";
constexpr size_t kMaxLine = 2048;
}  // namespace

void set_sink(Sink sink) { g_sink.store(sink, std::memory_order_release); }

void write(Level level, unsigned long subsystems, const char* file, int line, const char* format,
           ...) {
  Sink sink = g_sink.load(std::memory_order_acquire);
  if (sink == nullptr) return;
  char text[kMaxLine];
  int used = std::snprintf(text, sizeof(text), "%s", kPrefix);
  va_list args;
  va_start(args, format);
  std::vsnprintf(text + used, sizeof(text) - used, format, args);
  va_end(args);
  sink(level, subsystems, file, line, text);
}

void write_of_kind(Level level, unsigned long subsystems, const char* kind, const char* text) {
  Sink sink = g_sink.load(std::memory_order_acquire);
  if (sink == nullptr) return;
  char line[kMaxLine];
  std::snprintf(line, sizeof(line), "NET/GDR [%s] : %s", kind, text);
  sink(level, subsystems, __FILE__, __LINE__, line);
}

}  // namespace gdr::log
