// All that the checks look at: the files of a machine, and the facts that no file shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "plugin/config/environment.h"
#include "plugin/config/nccl_conf.h"
#include "tools/doctor/check.h"
#include "tools/doctor/facts/counters.h"
#include "tools/doctor/facts/gpu_facts.h"
#include "tools/doctor/facts/library_facts.h"
#include "tools/doctor/facts/rdma_ports.h"
#include "tools/doctor/report/profile.h"
#include "tools/inspection/inspection.h"

namespace gdr::tools::doctor {

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

struct Host {
  // Where /proc, /sys, /dev and /etc are: "/", or a folder with a copy of another machine's.
  std::filesystem::path root = "/";
  // The file that `inspection` is of, where that is all that is known; else "".
  std::string file;
  // Whether that is the machine that this process runs on. If not, the facts that no file shows are
  // unknown.
  bool is_live = true;

  // The variables of NCCL and the plugin with those of NCCL's configuration files, and where these
  // set them.
  config::Environment environment;
  config::ConfPlaces conf_places;

  // GPUs, HCAs, the PCI tree and the rails; nothing where they could not be read, for the reason in
  // `inspection_error`.
  std::optional<topo::Inspection> inspection;
  std::string inspection_error;
  topo::PciStates pci_states;
  Findings findings;  // of the topology: judge_topology()

  GpuFacts gpus;                          // NVIDIA's driver, CUDA, and what they report of each GPU
  RdmaPorts ports;                        // of every HCA, as sysfs and verbs show them
  ProcessFacts process;                   // limits and capabilities of this process
  LibraryFacts libraries;                 // as the loader finds them
  std::optional<Profile> good;            // the machine that this one should be like: --expect
  CounterReading counters;                // of the ports
  std::optional<CounterReading> earlier;  // those of --since, or of a second ago

  // The path of a file of the machine: path("/proc/modules").
  std::filesystem::path path(const std::string& absolute) const;
  bool exists(const std::string& absolute) const;
  // The content of such a file; nothing where it cannot be read.
  std::optional<std::string> read(const std::string& absolute) const;
  // Its first line, without blanks at the ends; "" where it cannot be read.
  std::string line(const std::string& absolute) const;
  // What follows `key` in the first line that begins with it; nothing where there is no such line.
  std::optional<std::string> line_of(const std::string& absolute, const std::string& key) const;
  // The names in a folder, with numbers in their order; none where it cannot be listed.
  std::vector<std::string> names(const std::string& absolute) const;
};

// Reads the limits and capabilities of this process, and what runs it; `host` has its root,
// environment and topology already.
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

// Reads all of it, of this machine ("/") or of a folder with a copy. Fails where the folder does
// not exist, or has neither /proc nor /sys.
Result<Host> read_host(const std::filesystem::path& root);

// Reads the topology alone, from a file of hwloc or NCCL. Fails as topo::inspect() does, and for
// the text of nvidia-smi, which states too little.
Result<Host> read_host_of_file(const topo::InspectOptions& options);

// Fills Host::findings with what the topology shows: see topology.h.
void judge_topology(Host* host);

// The findings of these kinds, as the check reports them.
Observations findings_of(const Host& host, const std::vector<FindingKind>& kinds);

// What shows /sys: "mount /sys", or for a folder that it has to be copied.
std::string needs_sys(const Host& host);

// What a check says where it needs the topology, and that could not be read.
Observation unknown_topology(const Host& host);

// Whether /sys can be read: without it, no GPU and no HCA means that they are unknown.
bool shows_devices(const Host& host);

// What a check says where all is well only since it sees no GPU or no HCA.
Observation ok_without(const Host& host, std::string subject, std::string evidence);

// What a check says where the machine has none of the devices that it is about. Without a readable
// /sys that is kUnknown, as the devices would not be seen.
Observation nothing_on(const Host& host, std::string evidence);

}  // namespace gdr::tools::doctor
