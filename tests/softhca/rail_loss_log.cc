#include "tests/softhca/rail_loss_log.h"

#include <array>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <regex>
#include <string>
#include <vector>

namespace gdr::rail_loss {
namespace {

struct Lines {
  std::mutex mutex;
  int lost = 0;
  int returned = 0;
  std::vector<std::string> warnings;

  // "rail rail0:1: sent 5 bytes in 1 chunk (2 %), received ..., over 2 connections, 4 losses, 0
  // returns".
  void add_rail(const std::string& line) {
    static const std::regex kCounts(
        "NET/GDR : rail .* over .*, (\\d+) queue pairs? lost, (\\d+) returned");
    std::smatch counts;
    if (!std::regex_match(line, counts, kCounts)) return;
    lost += std::stoi(counts[1]);
    returned += std::stoi(counts[2]);
  }
};

Lines& lines() {
  static Lines made;
  return made;
}

void print(const char* level, const char* text) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const double seconds = std::chrono::duration<double>(now).count();
  std::fprintf(stderr, "%.6f %s %s\n", seconds, level, text);
}

}  // namespace

void Log::logger(abi::ncclDebugLogLevel level, unsigned long, const char*, int, const char* format,
                 ...) {
  if (level != abi::kLogWarn && level != abi::kLogInfo) return;
  std::array<char, 4096> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  const std::string line = text.data();
  Lines& all = lines();
  std::lock_guard lock(all.mutex);
  print(level == abi::kLogWarn ? "WARN" : "INFO", text.data());
  all.add_rail(line);
  if (level == abi::kLogWarn) all.warnings.push_back(line);
}

void Log::note(const std::string& text) {
  std::lock_guard lock(lines().mutex);
  print("note", text.c_str());
}

int Log::lost() {
  std::lock_guard lock(lines().mutex);
  return lines().lost;
}

int Log::returned() {
  std::lock_guard lock(lines().mutex);
  return lines().returned;
}

std::vector<std::string> Log::warnings() {
  std::lock_guard lock(lines().mutex);
  return lines().warnings;
}

}  // namespace gdr::rail_loss
