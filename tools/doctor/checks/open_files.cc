#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"

namespace gdr::tools::doctor {
namespace {

// A process of CUDA and NCCL has a hundred descriptors before its first connection, and each
// connection takes its socket and its HCA's files.
constexpr uint64_t kLeastOpenFiles = 256;
// The usual soft limit, enough for rings and trees.
constexpr uint64_t kUsualOpenFiles = 1024;
// All-to-all over hundreds of ranks has a connection in each direction for each.
constexpr uint64_t kAmpleOpenFiles = 16384;

Observations run_open_files(const Host& host) {
  const std::optional<ResourceLimit> limit = resource_limit(host, "Max open files");
  if (!limit.has_value()) {
    return {unknown("", "/proc/self/limits has no line of open files", "mount /proc")};
  }
  const std::string evidence =
      fmt::format("this process may have {} open files (/proc/self/limits)",
                  limit->soft == kNoLimit ? "unlimited" : std::to_string(limit->soft));
  if (rdma_device_names(host).empty() || limit->soft >= kAmpleOpenFiles) return {ok("", evidence)};
  const bool can_raise = limit->hard >= kUsualOpenFiles && limit->hard > limit->soft;
  const std::string fix =
      can_raise ? "run \"ulimit -n $(ulimit -H -n)\" in the job's script"
                : "raise nofile in /etc/security/limits.conf, LimitNOFILE= of the service that "
                  "starts the job, or --ulimit nofile=1048576 of the container";
  if (limit->soft < kLeastOpenFiles) return {failure("", evidence, fix)};
  if (limit->soft < kUsualOpenFiles) return {warning("", evidence, fix)};
  return {ok("", evidence + "; an all-to-all over hundreds of ranks needs more: " + fix)};
}

}  // namespace

Check open_files() {
  return {.name = "open-files",
          .looks_at = "the limit of open files of this process",
          .why =
              "Each connection takes file descriptors, and so does each dma-buf; without a free "
              "one, both fail.",
          .cost = Cost::kStops,
          .run = run_open_files};
}

}  // namespace gdr::tools::doctor
