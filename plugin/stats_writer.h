// The thread that writes the counters of the process to GDR_NCCL_STATS_DIR.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "plugin/stats_file.h"

namespace gdr::plugin {

// A thread of its own, which there is only where the user asks for counters: a file system may
// block for as long as a server does not answer, and no other thread of the plugin may wait for
// that. A failure is logged once, as a warning, and tried again each time.
class StatsWriter {
 public:
  // The text of the file, for a process of that number. Called by the thread.
  using Text = std::function<std::string(int number)>;

  static constexpr std::chrono::milliseconds kInterval{10'000};
  // How long write_now() waits.
  static constexpr std::chrono::milliseconds kPatience{300};

  // Starts the thread, which writes at once and then every `interval`.
  StatsWriter(const std::string& folder, Text text, std::chrono::milliseconds interval = kInterval);
  // Waits for a write that has begun. Only tests end one: the plugin lives as long as the process.
  ~StatsWriter();
  StatsWriter(const StatsWriter&) = delete;
  StatsWriter& operator=(const StatsWriter&) = delete;

  // Writes what is counted now, before the process may end.
  void write_now();

 private:
  void run();
  void write();

  // The thread's.
  StatsFile file_;
  const std::chrono::milliseconds interval_;
  const Text text_;
  bool writes_ = false;  // the last attempt succeeded
  bool warned_ = false;

  std::mutex mutex_;                 // guards all that follows
  std::condition_variable changed_;  // wanted_ or stopping_
  std::condition_variable wrote_;    // written_
  uint64_t wanted_ = 0;              // writes that were asked for
  uint64_t written_ = 0;             // those of them that were made, or failed
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gdr::plugin
