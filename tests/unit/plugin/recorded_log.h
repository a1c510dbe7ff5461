// Records what a test logs.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"

namespace gdr::plugin {

// Lives as long as the test; one at a time, since the log has one sink.
class RecordedLog {
 public:
  RecordedLog() {
    lines().clear();
    log::set_sink([](log::Level level, unsigned long, const char*, int, const char* text) {
      lines().push_back((level == log::Level::kWarn ? "WARN " : "INFO ") + std::string(text));
    });
  }
  ~RecordedLog() { log::set_sink(nullptr); }
  RecordedLog(const RecordedLog&) = delete;
  RecordedLog& operator=(const RecordedLog&) = delete;

  // "WARN NET/GDR : text", in order.
  static std::vector<std::string>& lines() {
    static std::vector<std::string> recorded;
    return recorded;
  }
};

}  // namespace gdr::plugin
