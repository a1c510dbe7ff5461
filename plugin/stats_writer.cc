#include "plugin/stats_writer.h"

#include <pthread.h>

#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/blocked_signals.h"
#include "base/log.h"

namespace gdr::plugin {
namespace {

// The application may change its folder.
std::filesystem::path absolute(const std::string& folder) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(folder, error);
  return error ? std::filesystem::path(folder) : path;
}

}  // namespace

StatsWriter::StatsWriter(const std::string& folder, Text text, std::chrono::milliseconds interval)
    : file_(absolute(folder)), interval_(interval), text_(std::move(text)) {
  const BlockedSignals blocked;
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "gdr-stats");
  } catch (const std::system_error&) {
    GDR_WARN(
        "no thread could be started for GDR_NCCL_STATS_DIR, and no counters are written. Fix: "
        "raise the limit of processes and threads (ulimit -u, pids.max of the cgroup)");
  }
}

StatsWriter::~StatsWriter() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void StatsWriter::write_now() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  const uint64_t mine = ++wanted_;
  changed_.notify_all();
  wrote_.wait_for(lock, kPatience, [&] { return written_ >= mine; });
}

void StatsWriter::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const uint64_t wanted = wanted_;
    lock.unlock();
    write();
    lock.lock();
    written_ = wanted;
    wrote_.notify_all();
    changed_.wait_for(lock, interval_, [this] { return stopping_ || wanted_ != written_; });
  }
}

// An exception would end the process.
void StatsWriter::write() {
  try {
    const Status status = file_.write(text_);
    if (status && !std::exchange(writes_, true)) {
      GDR_INFO(log::kInit | log::kNet, "counters are written to %s every %lld s",
               file_.path().c_str(), static_cast<long long>(interval_ / std::chrono::seconds(1)));
    }
    if (status) return;
    const bool wrote = std::exchange(writes_, false);
    if (!std::exchange(warned_, true)) {
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
