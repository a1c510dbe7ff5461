#include <fmt/format.h>

#include <utility>

#include "plugin/config/load.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/nccl_settings.h"

namespace gdr::tools::doctor {
namespace {

void add_contradiction(const Host& host, const char* name, const std::string& without,
                       Observations* seen) {
  seen->push_back(warning(name,
                          fmt::format("{} has no effect with {}", value_text(host, name), without),
                          fmt::format("{}, or the other", unset_text(host, name))));
}

// NCCL_IB_GID_INDEX is used as it is, whatever describes the GID.
void judge_forced_gid(const Host& host, const config::Options& options, Observations* seen) {
  if (options.gid_index < 0) return;
  for (const char* name :
       {"NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE"}) {
    if (!nccl_setting(host, name).has_value()) continue;
    add_contradiction(host, name, setting_text(host, "NCCL_IB_GID_INDEX"), seen);
  }
}

void judge_queue_pairs(const Host& host, const config::Options& options, Observations* seen) {
  if (options.split_data_on_qps && options.qps_per_connection == 1) {
    add_contradiction(host, "NCCL_IB_SPLIT_DATA_ON_QPS",
                      "one queue pair for each connection "
                      "(NCCL_IB_QPS_PER_CONNECTION)",
                      seen);
  }
  if (options.adaptive_routing == 0 && nccl_setting(host, "NCCL_IB_AR_THRESHOLD").has_value()) {
    add_contradiction(host, "NCCL_IB_AR_THRESHOLD", setting_text(host, "NCCL_IB_ADAPTIVE_ROUTING"),
                      seen);
  }
}

void judge_merging(const Host& host, const config::Options& options, Observations* seen) {
  if (options.merge_nics) return;
  for (const char* name : {"NCCL_NET_MERGE_LEVEL", "NCCL_NET_FORCE_MERGE"}) {
    if (!nccl_setting(host, name).has_value()) continue;
    add_contradiction(host, name, setting_text(host, "NCCL_IB_MERGE_NICS"), seen);
  }
}

void judge_p2p(const Host& host, Observations* seen) {
  if (nccl_number(host, "NCCL_P2P_DISABLE") == 1 &&
      nccl_setting(host, "NCCL_P2P_LEVEL").has_value()) {
    add_contradiction(host, "NCCL_P2P_LEVEL", setting_text(host, "NCCL_P2P_DISABLE"), seen);
  }
}

Observations run_nccl_contradictions(const Host& host) {
  const config::Options options = config::load(host.environment, nullptr);
  Observations seen;
  judge_forced_gid(host, options, &seen);
  judge_queue_pairs(host, options, &seen);
  judge_merging(host, options, &seen);
  judge_p2p(host, &seen);
  if (!seen.empty()) return seen;
  constexpr char kHealthy[] = "no two variables that are set contradict each other";
  return {host.environment.empty() ? nothing_set(host, kHealthy) : ok("", kHealthy)};
}

}  // namespace

Check nccl_contradictions() {
  return {.name = "nccl-contradictions",
          .looks_at = "NCCL_* and GDR_NCCL_* variables of which one makes another useless",
          .why = "What the user asked for does not happen, without a message.",
          .cost = Cost::kStops,
          .run = run_nccl_contradictions};
}

}  // namespace gdr::tools::doctor
