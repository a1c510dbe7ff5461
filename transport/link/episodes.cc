#include "transport/link/episodes.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace gdr::transport {
namespace {

constexpr std::chrono::hours kForgotten{1};

}  // namespace

std::optional<int> Episodes::warn(const std::string& cause, Clock::time_point now, int severity,
                                  bool counts, Clock::duration pause) {
  std::lock_guard lock(mutex_);
  std::erase_if(episodes_, [now](const auto& one) {
    return now - one.second.warned_at >= std::max<Clock::duration>(one.second.pause, kForgotten);
  });
  const auto [found, is_new] = episodes_.try_emplace(cause, Episode{now, severity, pause});
  Episode& episode = found->second;
  if (is_new) return 0;
  if (now - episode.warned_at < pause && severity <= episode.severity) {
    if (counts) ++episode.left_out;
    return {};
  }
  episode.warned_at = now;
  episode.severity = severity;
  return std::exchange(episode.left_out, 0);
}

void write_line(bool warning, const std::string& text, const char* file, int line) {
  const auto level = warning ? log::Level::kWarn : log::Level::kInfo;
  log::write(level, warning ? ~0ul : log::kNet, file, line, "%s", text.c_str());
}

std::string left_out_text(int left_out) {
  if (left_out == 0) return "";
  return "; it happened " + std::to_string(left_out) + " more time" + (left_out == 1 ? "" : "s") +
         " since the last warning";
}

}  // namespace gdr::transport
