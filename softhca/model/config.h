// The configuration of the software HCA: SOFTHCA_CONFIG, documented in softhca/README.md.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace softhca {

struct GidEntry {
  ibv_gid gid = {};
  ibv_gid_type type = IBV_GID_TYPE_IB;
};

struct DeviceConfig {
  std::string name;
  uint32_t ports = 1;
  bool ethernet = false;
  uint16_t lid = 0;  // of port 1; the next ports follow
  std::vector<std::string> gids;
  std::string pci;  // empty: the device has no PCI place
  int numa_node = -1;
  uint64_t guid = 0;
  double rate_gbps = 0;   // 0: as fast as it goes
  double latency_us = 0;  // added to every transfer
  // Every registration takes so much longer: pinning costs grow with the size.
  double registration_us = 0;
  double registration_us_per_mib = 0;
  uint32_t mtu = 4096;
  uint32_t speed_gbps = 400;  // what query_port reports
  uint32_t max_inline = 1024;
  uint32_t max_qp = 8192;
  uint32_t max_qp_wr = 16384;

  // The GID table of a port (counted from 1).
  std::vector<GidEntry> gid_table(uint32_t port) const;
};

// The kernel module by which CUDA addresses can be registered.
enum class PeermemModule {
  kNone,
  kNvidiaPeermem,
  kNvPeerMem,  // its predecessor, out of support
};

struct GpuConfig {
  bool dmabuf = true;
  PeermemModule peermem = PeermemModule::kNvidiaPeermem;
  // Copies run in a CUDA context of the HCA's own, else in the application's.
  bool own_context = false;
  uint64_t bar1_bytes = 0;  // CUDA memory that may be registered at a time; 0: no limit
};

enum class FaultKind { kPortDown, kPortUp, kQpError, kRegMrRefused, kRate };

struct FaultConfig {
  FaultKind kind = FaultKind::kPortDown;
  std::string device;
  uint32_t port = 1;
  double at_s = 0;           // after this process opened its first device
  uint64_t after_bytes = 0;  // or after the port sent so much; 0: by time
  int error = 0;             // errno, for refused registrations
  double rate_gbps = 0;      // for kRate
};

struct Config {
  std::string fabric = "default";
  bool process_vm = true;            // false: copy between processes through shared staging only
  uint64_t staging_bytes = 8 << 20;  // per process, taken when it is first needed
  std::vector<DeviceConfig> devices;
  GpuConfig gpu;
  std::vector<FaultConfig> faults;

  // `text` is the value of SOFTHCA_CONFIG: a path, or JSON that starts with '{'. Null: defaults.
  static gdr::Result<Config> load(const char* text);
};

}  // namespace softhca
