// Records what a test logs.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"

namespace gdr {

// Lives as long as the test; one at a time, since the log has one sink. Thread-safe.
class RecordedLog {
 public:
  RecordedLog() {
    clear();
    log::set_sink([](log::Level level, unsigned long, const char*, int, const char* text) {
      std::lock_guard lock(mutex());
      recorded().push_back((level == log::Level::kWarn ? "WARN " : "INFO ") + std::string(text));
    });
  }
  ~RecordedLog() { log::set_sink(nullptr); }
  RecordedLog(const RecordedLog&) = delete;
  RecordedLog& operator=(const RecordedLog&) = delete;

  void clear() {
    std::lock_guard lock(mutex());
    recorded().clear();
  }

  // The lines that contain `part`, as "WARN NET/GDR : text", in order.
  std::vector<std::string> lines(const std::string& part = "") const {
    std::lock_guard lock(mutex());
    std::vector<std::string> found;
    for (const std::string& line : recorded()) {
      if (line.find(part) != std::string::npos) found.push_back(line);
    }
    return found;
  }

  // Those of them that are warnings.
  std::vector<std::string> warnings(const std::string& part = "") const {
    std::vector<std::string> found = lines(part);
    std::erase_if(found, [](const std::string& line) { return !line.starts_with("WARN "); });
    return found;
  }

 private:
  // The sink is a plain function, so that what it writes to is static.
  static std::mutex& mutex() {
    static std::mutex guards_recorded;
    return guards_recorded;
  }
  static std::vector<std::string>& recorded() {
    static std::vector<std::string> lines;
    return lines;
  }
};

}  // namespace gdr
