#include "transport/link/rail_use.h"

#include <utility>

#include "base/log.h"
#include "transport/link/failure_log.h"

namespace gdr::transport {
namespace {

uint64_t all_bytes(const std::vector<RailUse>& rails) {
  uint64_t all = 0;
  for (const RailUse& rail : rails) all += rail.bytes;
  return all;
}

// "90 %": rounded, so that the shares of a connection may add up to 99 or 101.
std::string share_text(uint64_t bytes, uint64_t of) {
  if (of == 0) return "0 %";
  const double share = 100.0 * static_cast<double>(bytes) / static_cast<double>(of);
  return std::to_string(static_cast<int>(share + 0.5)) + " %";
}

// ", 2 queue pairs lost, 1 returned"; "" where none was lost.
std::string losses_text(uint64_t losses, uint64_t returns) {
  if (losses == 0 && returns == 0) return "";
  return ", " + counted(losses, "queue pair") + " lost, " + std::to_string(returns) + " returned";
}

}  // namespace

std::string to_string(const std::vector<RailUse>& rails) {
  const uint64_t all = all_bytes(rails);
  std::string text;
  for (const RailUse& rail : rails) {
    text += (text.empty() ? "" : ", ") + rail.port + " " + counted(rail.bytes, "byte") + " in " +
            counted(rail.chunks, "chunk") + " (" + share_text(rail.bytes, all) +
            losses_text(rail.losses, rail.returns) + ")";
  }
  return text;
}

std::string bytes_text(const std::vector<RailUse>& rails) {
  const uint64_t all = all_bytes(rails);
  std::string text;
  for (const RailUse& rail : rails) {
    text += (text.empty() ? "" : ", ") + rail.port + " " + std::to_string(rail.bytes) + " (" +
            share_text(rail.bytes, all) + ")";
  }
  return text;
}

void RailTotals::open() {
  std::lock_guard lock(mutex_);
  ++open_;
}

void RailTotals::close(const std::vector<RailUse>& rails, bool sends) {
  std::map<std::string, Total> complete;
  {
    std::lock_guard lock(mutex_);
    const uint64_t all = all_bytes(rails);
    for (const RailUse& rail : rails) {
      Total& total = totals_[rail.port];
      Direction& direction = sends ? total.sent : total.received;
      direction.bytes += rail.bytes;
      direction.chunks += rail.chunks;
      direction.of += all;
      ++total.connections;
      total.losses += rail.losses;
      total.returns += rail.returns;
    }
    if (--open_ == 0) complete = std::exchange(totals_, {});
  }
  for (const auto& [port, total] : complete) {
    const bool used = total.sent.of + total.received.of + total.losses > 0;
    if (used) GDR_INFO(log::kInit | log::kNet, "%s", text_of(port, total).c_str());
  }
}

// Connections that do not recover count no data that they receive, so that a direction may lack.
std::string RailTotals::text_of(const std::string& port, const Total& total) {
  std::string text = "rail " + port + ":";
  const auto add = [&text](const char* done, const Direction& direction) {
    if (direction.of == 0) return;
    text += std::string(" ") + done + " " + counted(direction.bytes, "byte") + " in " +
            counted(direction.chunks, "chunk") + " (" + share_text(direction.bytes, direction.of) +
            "),";
  };
  add("sent", total.sent);
  add("received", total.received);
  return text + " over " + counted(total.connections, "connection") +
         losses_text(total.losses, total.returns);
}

}  // namespace gdr::transport
