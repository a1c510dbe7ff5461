#include "transport/recovery/recovery_rules.h"

#include <algorithm>
#include <string>

namespace gdr::transport {

Status check_arrived(const ChunkCounts& chunks, uint64_t arrived) {
  if (arrived < chunks.acknowledged) {
    return fail(Code::kRemote, "data was lost in the receiver's HCA: it acknowledged " +
                                   std::to_string(chunks.acknowledged) + " chunks, and only " +
                                   std::to_string(arrived) +
                                   " arrived, which no other rail can recover. Fix: look for a "
                                   "fatal error of that HCA in the kernel's log of the receiver");
  }
  if (arrived > chunks.posted) {
    return fail(Code::kInternal,
                "the peer states that " + std::to_string(arrived) +
                    " chunks arrived over a queue pair, and only " + std::to_string(chunks.posted) +
                    " were sent: what has arrived is unknown. Fix: use one release of the plugin "
                    "on all nodes; report it otherwise, with the logs of both ends");
  }
  return {};
}

std::chrono::milliseconds time_of_retries(const ConnectionOptions& options) {
  const int exponent =
      options.ack_timeout > 0 ? options.ack_timeout : ConnectionOptions{}.ack_timeout;
  const auto each = std::chrono::nanoseconds(4096) * (int64_t{1} << exponent);
  const auto all = each * (1 + options.retry_count);
  return std::chrono::duration_cast<std::chrono::milliseconds>(all);
}

std::chrono::milliseconds time_without_pairs(const ConnectionOptions& options) {
  constexpr std::chrono::milliseconds kLeast{5000};
  return std::max(kLeast, time_of_retries(options));
}

bool fails_over_every_path(const FailedWork& work, size_t paths, const ConnectionOptions& options) {
  constexpr size_t kMore = 4;
  return work.failures >= paths + kMore && work.failing_for >= time_of_retries(options);
}

}  // namespace gdr::transport
