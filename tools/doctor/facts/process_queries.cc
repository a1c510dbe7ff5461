// Asks the system for ProcessFacts.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "base/unique_fd.h"
#include "tools/doctor/facts/host.h"
#include "topology/model.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

bool is_in_environment(const Host& host, const char* name) {
  return host.is_live && std::getenv(name) != nullptr;
}

// Engines leave a file in the container; Kubernetes sets a variable in every pod. Where neither is
// there, the cgroup of the first process may have the engine's name, under cgroup v1 at least.
Container find_container(const Host& host) {
  const std::string cgroup = host.read("/proc/1/cgroup").value_or("");
  const auto names = [&](const char* word) { return cgroup.find(word) != std::string::npos; };
  if (is_in_environment(host, "KUBERNETES_SERVICE_HOST") || names("kubepods") ||
      host.exists("/run/secrets/kubernetes.io")) {
    return Container::kKubernetes;
  }
  if (host.exists("/.dockerenv") || names("/docker")) return Container::kDocker;
  if (host.exists("/run/.containerenv") || names("/libpod")) return Container::kPodman;
  if (host.exists("/run/systemd/container") || names("/lxc")) return Container::kOther;
  return Container::kNone;
}

// Opening is what shows the device cgroup of a container, which access() does not know. It does
// nothing to the HCA: libibverbs opens the same file for each device that a program uses.
std::vector<DeviceFile> open_uverbs(const Host& host) {
  constexpr char kFolder[] = "/dev/infiniband";
  std::vector<DeviceFile> files;
  for (const std::string& name : host.names(kFolder)) {
    if (!name.starts_with("uverbs")) continue;
    const fs::path file = host.path(kFolder) / name;
    const UniqueFd fd(open(file.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    files.push_back({name, fd.get() < 0 ? errno : 0});
  }
  return files;
}

// "unlimited" or a number, in the columns of /proc/self/limits.
std::optional<uint64_t> limit_in(const std::string& word) {
  if (word == "unlimited") return kNoLimit;
  char* end = nullptr;
  const uint64_t value = std::strtoull(word.c_str(), &end, 10);
  if (word.empty() || *end != '\0') return {};
  return value;
}

// The first user namespace maps every id to itself: "0 0 4294967295".
bool is_in_first_user_namespace(const Host& host) {
  std::istringstream map(host.line("/proc/self/uid_map"));
  uint64_t inside = 0, outside = 0, count = 0;
  if (!(map >> inside >> outside >> count)) return true;
  return inside == 0 && outside == 0 && count == 0xffffffff;
}

}  // namespace

ProcessFacts read_process_facts(const Host& host) {
  ProcessFacts facts;
  facts.container = find_container(host);
  if (!host.is_live) return facts;
  facts.in_slurm_job = std::getenv("SLURM_JOB_ID") != nullptr;
  if (const char* home = std::getenv("HOME")) facts.home = home;
  facts.uverbs = open_uverbs(host);
  return facts;
}

bool is_in_container(const Host& host) { return host.process.container != Container::kNone; }

bool is_in_docker(const Host& host) {
  return host.process.container == Container::kDocker ||
         host.process.container == Container::kPodman;
}

std::optional<ResourceLimit> resource_limit(const Host& host, const std::string& name) {
  std::istringstream words(host.line_of("/proc/self/limits", name + " ").value_or(""));
  std::string soft, hard;
  words >> soft >> hard;
  const std::optional<uint64_t> first = limit_in(soft), second = limit_in(hard);
  if (!first.has_value()) return {};
  return ResourceLimit{*first, second.value_or(*first)};
}

bool has_capability(const Host& host, int number) {
  const std::string effective = host.line_of("/proc/self/status", "CapEff:").value_or("");
  const uint64_t set = std::strtoull(effective.c_str(), nullptr, 16);
  return (set >> number & 1) != 0 && is_in_first_user_namespace(host);
}

std::vector<std::string> rdma_device_names(const Host& host) {
  std::vector<std::string> names = host.names("/sys/class/infiniband");
  if (names.empty()) {
    for (const RdmaHca& hca : host.ports.hcas) names.push_back(hca.name);
  }
  std::sort(names.begin(), names.end(), topology::name_less);
  return names;
}

size_t gpu_count(const Host& host) {
  return host.inspection.has_value() ? host.inspection->decision.machine.gpus.size() : 0;
}

}  // namespace gdr::tools::doctor
