// The state that a test gives the fake libnvidia-ml.so.1. The test loads the library at run time,
// as NCCL does, and finds fake_nvml_state with dlsym.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace fake_nvml {

struct Link {
  std::string remote;  // as NVML writes PCI addresses: "0000:3B:00.0"
  bool p2p = true;
  bool active = true;
  bool trained = false;  // set by the fake when the link's capability is asked for
};

struct C2cLink {
  bool up = true;
  bool has_bandwidth = true;
};

struct Gpu {
  std::string bus_id;
  int capability = 90;  // compute capability times 10: 90 for 9.0
  std::vector<Link> links;
  std::vector<C2cLink> c2c_links = {};
  unsigned long long bar1_bytes = 0;        // 0: the GPU does not report its BAR1
  std::map<std::string, int> failing = {};  // NVML return codes for this GPU, by function name
};

struct State {
  std::vector<Gpu> gpus;
  int init_returns = 0;
  int users = 0;  // calls of nvmlInit_v2 minus those of nvmlShutdown
};

}  // namespace fake_nvml

extern "C" fake_nvml::State* fake_nvml_state();
