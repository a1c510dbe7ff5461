// The thread that writes the counters of the process to GDR_NCCL_STATS_DIR.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace gdr::plugin {

// A thread of its own, which there is only where the user asks for counters: a file system may
// block for as long as a server does not answer, and no other thread of the plugin may wait for
// that. It is detached for the same reason. A failure is logged once, as a warning, and tried again
// each time.
class StatsWriter {
 public:
  // The text of the file, for a process of that number. Called by the thread.
  using Text = std::function<std::string(int number)>;

  static constexpr std::chrono::milliseconds kInterval{10'000};
  // How long write_now() and the end of this object wait.
  static constexpr std::chrono::milliseconds kPatience{300};

  // Starts the thread, which writes at once and then every `interval`.
  StatsWriter(const std::string& folder, Text text, std::chrono::milliseconds interval = kInterval);
  // text() is not called after it. A write that blocks goes on.
  ~StatsWriter();
  StatsWriter(const StatsWriter&) = delete;
  StatsWriter& operator=(const StatsWriter&) = delete;

  // Writes what is counted now, before the process may end.
  void write_now();

 private:
  struct State;

  static void run(const std::shared_ptr<State>& state);
  static void write(State& state);

  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace gdr::plugin
