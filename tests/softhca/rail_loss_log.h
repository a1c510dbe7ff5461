// What the plugin logs in one process of rail_loss.py: printed to standard error with times, and
// searched for what is counted.
#pragma once

#include <array>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <regex>
#include <string>
#include <vector>

#include "plugin/abi/nccl_types.h"

namespace gdr::rail_loss {

// NCCL's logger has no context.
class Log {
 public:
  static void logger(abi::ncclDebugLogLevel level, unsigned long, const char*, int,
                     const char* format, ...) {
    if (level != abi::kLogWarn && level != abi::kLogInfo) return;
    std::array<char, 4096> text{};
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    std::lock_guard lock(mutex_);
    print(level == abi::kLogWarn ? "WARN" : "INFO", text.data());
    count(text.data());
    if (level == abi::kLogWarn) warnings_.emplace_back(text.data());
  }
  // A line of this program.
  static void note(const std::string& text) {
    std::lock_guard lock(mutex_);
    print("note", text.c_str());
  }
  // How often a rail was lost, and returned, by the plugin's last line about each rail, which comes
  // when its comms are closed.
  static int lost() {
    std::lock_guard lock(mutex_);
    return lost_;
  }
  static int returned() {
    std::lock_guard lock(mutex_);
    return returned_;
  }
  static std::vector<std::string> warnings() {
    std::lock_guard lock(mutex_);
    return warnings_;
  }

 private:
  static void print(const char* level, const char* text) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const double seconds = std::chrono::duration<double>(now).count();
    std::fprintf(stderr, "%.6f %s %s\n", seconds, level, text);
  }
  static void count(const char* line) {
    static const std::regex kCounts(
        "NET/GDR : rail .* over .*, (\\d+) queue pairs? lost, (\\d+) returned");
    std::cmatch counts;
    if (!std::regex_match(line, counts, kCounts)) return;
    lost_ += std::stoi(counts[1]);
    returned_ += std::stoi(counts[2]);
  }

  static inline std::mutex mutex_;
  static inline int lost_ = 0;
  static inline int returned_ = 0;
  static inline std::vector<std::string> warnings_;
};

}  // namespace gdr::rail_loss
