#include "plugin/stats_writer.h"

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"
#include "base/log.h"
#include "plugin/stats_file.h"

namespace gdr::plugin {

struct StatsWriter::State {
  State(const std::string& folder, Text text_of, std::chrono::milliseconds pause)
      : file(absolute(folder)), interval(pause), text(std::move(text_of)) {}

  // The application may change its folder.
  static std::filesystem::path absolute(const std::string& folder) {
    std::error_code error;
    std::filesystem::path path = std::filesystem::absolute(folder, error);
    return error ? std::filesystem::path(folder) : path;
  }

  // The thread's.
  StatsFile file;
  const std::chrono::milliseconds interval;
  bool writes = false;  // the last attempt succeeded
  bool warned = false;

  std::mutex calling;  // held during text(), which waits for no file
  Text text;           // null after the end of the StatsWriter

  std::mutex mutex;                 // guards all that follows
  std::condition_variable changed;  // wanted or stopping
  std::condition_variable wrote;    // written or ended
  uint64_t wanted = 0;              // writes that were asked for
  uint64_t written = 0;             // those of them that were made, or failed
  bool stopping = false;
  bool ended = true;
};

StatsWriter::StatsWriter(const std::string& folder, Text text, std::chrono::milliseconds interval)
    : state_(std::make_shared<State>(folder, std::move(text), interval)) {
  const BlockedSignals blocked;
  try {
    state_->ended = false;
    std::thread thread([state = state_] { run(state); });
    pthread_setname_np(thread.native_handle(), "gdr-stats");
    thread.detach();
  } catch (const std::system_error&) {
    state_->ended = true;
    GDR_WARN(
        "no thread could be started for GDR_NCCL_STATS_DIR, and no counters are written. Fix: "
        "raise "
        "the limit of processes and threads (ulimit -u, pids.max of the cgroup)");
  }
}

StatsWriter::~StatsWriter() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  state_->wrote.wait_for(lock, kPatience, [this] { return state_->ended; });
  lock.unlock();
  const std::lock_guard not_calling(state_->calling);
  state_->text = nullptr;
}

void StatsWriter::write_now() {
  std::unique_lock lock(state_->mutex);
  const uint64_t mine = ++state_->wanted;
  state_->changed.notify_all();
  state_->wrote.wait_for(lock, kPatience, [&] { return state_->ended || state_->written >= mine; });
}

void StatsWriter::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (!state->stopping) {
    const uint64_t wanted = state->wanted;
    lock.unlock();
    write(*state);
    lock.lock();
    state->written = wanted;
    state->wrote.notify_all();
    state->changed.wait_for(lock, state->interval,
                            [&] { return state->stopping || state->wanted != state->written; });
  }
  state->ended = true;
  state->wrote.notify_all();
}

// An exception would end the process.
void StatsWriter::write(State& state) {
  try {
    bool is_wanted = true;
    const Status status = state.file.write([&](int number) {
      const std::lock_guard calling(state.calling);
      is_wanted = state.text != nullptr;
      return is_wanted ? state.text(number) : std::string();
    });
    if (!is_wanted) return;
    if (status && !std::exchange(state.writes, true)) {
      GDR_INFO(log::kInit | log::kNet, "counters are written to %s every %lld s",
               state.file.path().c_str(),
               static_cast<long long>(state.interval / std::chrono::seconds(1)));
    }
    if (status) return;
    const bool wrote = std::exchange(state.writes, false);
    if (!std::exchange(state.warned, true)) {
      GDR_WARN("counters are not written, and the job goes on without them: %s",
               status.error().text.c_str());
    } else if (wrote) {
      GDR_INFO(log::kInit | log::kNet, "counters are not written: %s", status.error().text.c_str());
    }
  } catch (const std::exception&) {
    // Without memory the file keeps its last text, and the next attempt is near.
  }
}

}  // namespace gdr::plugin
