// A logger for the plugin that a test has loaded, as NCCL's.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/abi/nccl_types.h"

namespace gdr {

// The lines that the plugin logged in this process. Thread-safe. A forked child begins with
// renew(), since a thread of its parent may have had the lock.
class PluginLog {
 public:
  static abi::ncclDebugLogger_t logger() { return write; }
  static void renew() { current() = new PluginLog; }
  static void clear() {
    std::lock_guard lock(current()->mutex_);
    current()->lines_.clear();
  }

  // The lines that contain `part`; warnings begin with "WARN ".
  static std::vector<std::string> lines(const std::string& part = "") {
    std::lock_guard lock(current()->mutex_);
    std::vector<std::string> found;
    for (const std::string& line : current()->lines_) {
      if (line.find(part) != std::string::npos) found.push_back(line);
    }
    return found;
  }
  static std::vector<std::string> warnings(const std::string& part = "") {
    std::vector<std::string> found = lines(part);
    std::erase_if(found, [](const std::string& line) { return !line.starts_with("WARN "); });
    return found;
  }
  static std::string text() {
    std::string all;
    for (const std::string& line : lines()) all += line + "\n";
    return all;
  }

 private:
  // Never destroyed, as the plugin's own thread logs until the process ends.
  static PluginLog*& current() {
    static auto* log = new PluginLog;
    return log;
  }
  static void write(abi::ncclDebugLogLevel level, unsigned long, const char*, int,
                    const char* format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    std::lock_guard lock(current()->mutex_);
    current()->lines_.push_back((level == abi::kLogWarn ? "WARN " : "INFO ") + std::string(line));
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;  // guarded by mutex_
};

}  // namespace gdr
