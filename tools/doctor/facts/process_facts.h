// Limits and capabilities of this process, and what runs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gdr::tools::doctor {

struct Host;

enum class Container : uint8_t { kNone, kDocker, kPodman, kKubernetes, kOther };

// A file of /dev/infiniband, opened for reading and writing as libibverbs does.
struct DeviceFile {
  std::string name;  // "uverbs0"
  int error = 0;     // errno of open(); 0: it can be opened
};

struct ProcessFacts {
  Container container = Container::kNone;
  // The rest is known on the live machine only.
  bool in_slurm_job = false;
  std::string home;                               // of the user, where .nccl.conf is; "": unknown
  std::optional<std::vector<DeviceFile>> uverbs;  // every uverbs* of /dev/infiniband
};

// Reads them; `host` has its root, environment and topology already.
ProcessFacts read_process_facts(const Host& host);

bool is_in_container(const Host& host);
bool is_in_docker(const Host& host);  // or Podman, which has its options

// A resource limit of this process; kNoLimit: unlimited.
inline constexpr uint64_t kNoLimit = UINT64_MAX;
struct ResourceLimit {
  uint64_t soft = kNoLimit;
  uint64_t hard = kNoLimit;
};

// Returns a limit of /proc/self/limits by its name there, "Max locked memory". Nothing where the
// file lacks it.
std::optional<ResourceLimit> resource_limit(const Host& host, const std::string& name);

// Whether the process has a capability (its number in linux/capability.h) that the kernel honours
// where it asks capable(): one in the first user namespace, unlike that of a rootless container.
bool has_capability(const Host& host, int number);

// Returns the names of the RDMA devices in /sys/class/infiniband, sorted; those of verbs where
// sysfs has none.
std::vector<std::string> rdma_device_names(const Host& host);

// Returns the number of GPUs of the machine; 0 also where its topology could not be read.
size_t gpu_count(const Host& host);

}  // namespace gdr::tools::doctor
