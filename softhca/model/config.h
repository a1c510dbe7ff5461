// The configuration of the software HCA: the environment variable SOFTHCA_CONFIG. softhca/README.md
// lists all fields with their ranges and defaults.
//
// Grammar: the value is the path of a JSON file, or a JSON object itself when it starts with '{'.
// Comments are allowed. Unset or empty, it stands for {}. Every field is optional except `kind` and
// `device` of a fault, and an unknown field is an error. Example:
//
//   {"fabric": "two-rails",
//    "devices": [{"name": "rail0", "pci": "0000:3b:00.0", "rate_gbps": 100},
//                {"name": "rail1", "link_layer": "Ethernet", "gids": ["::ffff:10.0.0.1"]}],
//    "gpu": {"dmabuf": false, "bar1_bytes": 268435456},
//    "faults": [{"kind": "port_down", "device": "rail1", "at_s": 5},
//               {"kind": "qp_error", "device": "rail0", "after_bytes": 1048576}]}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "softhca/model/addresses.h"
#include "softhca/model/fault_config.h"
#include "softhca/model/port_config.h"

namespace softhca {

// What a device is to libibverbs. Only InfiniBand and RoCE devices connect RC QPs by ibv_modify_qp.
enum class Transport {
  kInfiniBand,   // RoCE as well
  kIwarp,        // connects by rdma_cm only
  kUnspecified,  // no RC and UC QPs, as with EFA
};

// Enhanced connection establishment (ibv_set_ece(3)). Not supported while vendor_id is 0.
struct EceConfig {
  uint32_t vendor_id = 0;
  uint32_t options = 0;   // supported ones
  uint32_t required = 0;  // a QP that does not use all of these reaches no peer
};

struct DeviceConfig {
  std::string name;
  Transport transport = Transport::kInfiniBand;
  uint32_t vendor_id = 0x1af4;  // as ibv_device_attr has it
  uint32_t ports = 1;
  std::vector<PortConfig> port_settings;  // of each port
  EceConfig ece;
  std::string pci;     // empty: the device is on no PCI bus
  int numa_node = -1;  // -1: unknown
  uint64_t guid = 0;
  double rate_gbps = 0;   // 10^9 bits per second each way; 0: no limit
  double latency_us = 0;  // added to every transfer
  // Shortens how long requests wait for an acknowledgement.
  double ack_timeout_factor = 1;
  // Added to every registration, and for every MiB of it: pinning takes longer for more memory.
  double registration_us = 0;
  double registration_us_per_mib = 0;
  uint32_t max_inline = 1024;  // bytes
  uint32_t max_qp = 8192;      // of this process
  uint32_t max_qp_wr = 16384;

  // `number` counts from 1.
  const PortConfig& port(uint32_t number) const { return port_settings[number - 1]; }
  // Returns the GID table with which a port starts (model/addresses.h).
  std::vector<GidEntry> gid_table(uint32_t port) const;
};

// The kernel module by which ibv_reg_mr takes CUDA addresses.
enum class PeermemModule {
  kNone,
  kNvidiaPeermem,
  kNvPeerMem,  // the module that nvidia-peermem replaced
};

struct GpuConfig {
  bool dmabuf = true;
  PeermemModule peermem = PeermemModule::kNvidiaPeermem;
  bool own_context = false;  // copy in a CUDA context of the HCA's own, not in the application's
  uint64_t bar1_bytes = 0;   // CUDA memory that may be registered at a time; 0: no limit
};

struct Config {
  std::string fabric = "default";
  bool process_vm = true;            // false: copy between processes through the staging area only
  uint64_t staging_bytes = 8 << 20;  // per process, allocated when first needed
  uint64_t memlock_bytes = UINT64_MAX;    // limit of registrations, CQs and QPs; by default none
  bool stale_registrations_fail = false;  // where that can be noticed (verbs/page_watch.h)
  double reorder_us = 0;  // up to which each request is delayed at random, after those before it
  std::vector<DeviceConfig> devices;
  GpuConfig gpu;
  std::vector<FaultConfig> faults;
  std::string faults_file;     // of faults that are added while the process runs; empty: none
  std::string counters_file;   // where requests are counted (counters.h); empty: they are not
  bool report_faults = false;  // a line on stderr for each fault that happens (fault_report.h)

  // `text` is the value of SOFTHCA_CONFIG, or null. `fabric` is that of SOFTHCA_FABRIC, or null:
  // the fabric of a configuration that names none. Fails with kInvalidUsage; the error names the
  // field and what is accepted.
  static gdr::Result<Config> load(const char* text, const char* fabric = nullptr);
  // Reads the JSON object of one more fault. Fails as load().
  gdr::Result<FaultConfig> parse_fault(const std::string& text) const;
};

}  // namespace softhca
