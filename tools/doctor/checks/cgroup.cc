// Limits of control groups, of both versions (kernel documentation, admin-guide/cgroup-v2.rst and
// cgroup-v1/): a process has those of its own group and of every group above it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

constexpr uint64_t kCgroupMiB = uint64_t{1} << 20;
// Something that a group has a limited number of.
struct CgroupLimit {
  const char* name;  // "tasks", or as in rdma.max
  uint64_t few;      // fewer that are left are a warning
  uint64_t too_few;  // a failure
};

// Threads of NCCL, CUDA and data loaders of 8 processes; what NCCL and CUDA start in one process.
constexpr CgroupLimit kTasks = {"tasks", 256, 32};
// QPs, CQs, MRs and PDs of 8 processes; what one process needs for one connection.
constexpr CgroupLimit kRdmaObjects = {"hca_object", 1000, 20};

struct CgroupUse {
  uint64_t used, most;
  std::string file;  // that states the limit
};

Observation judge_use(const CgroupLimit& limit, const std::string& subject, const CgroupUse& use,
                      const std::string& fix) {
  const uint64_t left = use.most > use.used ? use.most - use.used : 0;
  const std::string evidence =
      fmt::format("{} of {} {} are in use ({})", use.used, use.most, limit.name, use.file);
  if (left < limit.too_few) return failure(subject, evidence, fix);
  return left < limit.few ? warning(subject, evidence, fix) : ok(subject, evidence);
}

// Returns the folders below /sys/fs/cgroup with the limits of a controller for this process, its
// own group first. In a container the mount may show the container's group at its top.
std::vector<std::string> cgroup_folders(const Host& host, const std::string& controller) {
  std::istringstream lines(host.read("/proc/self/cgroup").value_or("0::/"));
  std::vector<std::string> folders;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_v2 = controllers.empty();
    if (!is_v2 && ("," + controllers + ",").find("," + controller + ",") == std::string::npos) {
      continue;
    }
    const std::string top = is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controllers;
    std::string group = line.substr(second + 1);
    while (group.size() > 1 && group.front() == '/') {
      if (group.find("/..") == std::string::npos) folders.push_back(top + group);
      group.resize(group.rfind('/'));
    }
    folders.push_back(top);
  }
  return folders;
}

// Nothing where the file is absent or has no number, as "max".
std::optional<uint64_t> cgroup_number(const Host& host, const std::string& file) {
  const std::string text = host.line(file);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return {};
  return std::strtoull(text.c_str(), nullptr, 10);
}

void judge_tasks(const Host& host, Observations* seen) {
  for (const std::string& folder : cgroup_folders(host, "pids")) {
    const auto most = cgroup_number(host, folder + "/pids.max");
    if (!most.has_value()) continue;
    const uint64_t used = cgroup_number(host, folder + "/pids.current").value_or(0);
    seen->push_back(judge_use(
        kTasks, "tasks", {used, *most, folder + "/pids.max"},
        "raise the limit: --pids-limit of docker run, podPidsLimit of the kubelet, or TasksMax= of "
        "the systemd unit"));
  }
}

// The cache of files counts as used, and is given back when memory is short. Version 1 has totals
// with the groups below.
uint64_t file_cache_of(const Host& host, const std::string& folder) {
  std::istringstream lines(host.read(folder + "/memory.stat").value_or(""));
  uint64_t own = 0, total = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (!(words >> name >> value)) continue;
    if (name == "active_file" || name == "inactive_file") own += value;
    if (name == "total_active_file" || name == "total_inactive_file") total += value;
  }
  return std::max(own, total);
}

void judge_memory(const Host& host, Observations* seen) {
  constexpr uint64_t kNoMemoryLimit = uint64_t{1} << 60;  // version 1 has a large number for "max"
  for (const std::string& folder : cgroup_folders(host, "memory")) {
    auto most = cgroup_number(host, folder + "/memory.max");
    auto used = cgroup_number(host, folder + "/memory.current");
    if (!most.has_value()) most = cgroup_number(host, folder + "/memory.limit_in_bytes");
    if (!used.has_value()) used = cgroup_number(host, folder + "/memory.usage_in_bytes");
    if (!most.has_value() || !used.has_value() || *most >= kNoMemoryLimit) continue;
    const uint64_t cache = std::min(file_cache_of(host, folder), *used);
    const uint64_t needed = *used - cache;
    const std::string evidence =
        fmt::format("{} of {} MiB are in use, without the cache of files ({})", needed / kCgroupMiB,
                    *most / kCgroupMiB, folder);
    if (needed > *most / 10 * 9) {
      seen->push_back(warning("memory", evidence,
                              "give the container or job more memory, or use less: pinned memory "
                              "cannot be swapped out"));
    } else {
      seen->push_back(ok("memory", evidence));
    }
  }
}

// The number behind "hca_object=" in a line of rdma.max or rdma.current; nothing for "max".
std::optional<uint64_t> rdma_number(const std::string& line, const std::string& name) {
  const size_t at = line.find(name + "=");
  if (at == std::string::npos) return {};
  const char* text = line.c_str() + at + name.size() + 1;
  if (*text < '0' || *text > '9') return {};
  return std::strtoull(text, nullptr, 10);
}

std::string line_of_device(const std::string& text, const std::string& device) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(device + " ")) return line;
  }
  return "";
}

void judge_rdma_limit(const CgroupLimit& limit, const std::string& line, const std::string& current,
                      const std::string& folder, Observations* seen) {
  const auto most = rdma_number(line, limit.name);
  if (!most.has_value()) return;
  const std::string device = line.substr(0, line.find(' '));
  const uint64_t used = rdma_number(line_of_device(current, device), limit.name).value_or(0);
  const std::string file = folder + "/rdma.max";
  seen->push_back(judge_use(limit, device, {used, *most, file},
                            fmt::format("raise it outside of the container: echo \"{} "
                                        "hca_handle=max hca_object=max\" > {}",
                                        device, file)));
}

void judge_rdma(const Host& host, Observations* seen) {
  const CgroupLimit handles = {"hca_handle", std::max<uint64_t>(gpu_count(host), 1), 1};
  for (const std::string& folder : cgroup_folders(host, "rdma")) {
    const std::string current = host.read(folder + "/rdma.current").value_or("");
    std::istringstream lines(host.read(folder + "/rdma.max").value_or(""));
    for (std::string line; std::getline(lines, line);) {
      for (const CgroupLimit& limit : {handles, kRdmaObjects}) {
        judge_rdma_limit(limit, line, current, folder, seen);
      }
    }
  }
}

}  // namespace

Observations run_cgroup(const Host& host) {
  if (!host.read("/proc/self/cgroup").has_value() || !host.exists("/sys/fs/cgroup")) {
    return {
        unknown("", "/proc/self/cgroup or /sys/fs/cgroup cannot be read", "mount /proc and /sys")};
  }
  Observations seen;
  judge_rdma(host, &seen);
  judge_tasks(host, &seen);
  judge_memory(host, &seen);
  if (seen.empty()) seen.push_back(ok("", "no limit of tasks, memory or RDMA objects is set"));
  return seen;
}

}  // namespace gdr::tools::doctor
