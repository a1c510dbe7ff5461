// An independent restatement of how NCCL chooses HCAs, straight from a topology file, to which
// nccl::Prediction is compared. It is written from the facts of NCCL's src/graph for the releases
// 2.20 to 2.30 and shares no code with the prediction: it builds NCCL's graph node by node, and
// repeats NCCL's searches on it in NCCL's order.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction/settings.h"

namespace gdr::topology::oracle {

struct AnsweredRoute {
  int type = 0;  // the number of a PathClass; kUnreached: none
  float gb_per_s = 0;
  int hops = 0;
  int through = -1;  // the GPU that relays (PXN)
  bool operator==(const AnsweredRoute&) const = default;
};

// What NCCL does between a GPU and a device: 0 no GPUDirect, 1 GPUDirect, 2 GPUDirect over PCIe on
// a GPU with C2C.
struct AnsweredModes {
  int receive = 0;
  int send = 0;
  bool operator==(const AnsweredModes&) const = default;
};

// GPUs count by PCI address and partition, network devices by `dev`.
struct Answer {
  std::string failure;  // why NCCL fails; the rest is then empty
  std::vector<std::vector<AnsweredRoute>> gpu_to_gpu;
  std::vector<std::vector<AnsweredRoute>> gpu_to_device;
  std::vector<std::vector<AnsweredRoute>> device_to_gpu;
  std::vector<int> local_gpus;                    // of each device; -1: none
  std::vector<std::vector<int>> used;             // of each GPU: its device in the first 8 channels
  std::vector<std::vector<AnsweredModes>> modes;  // of each GPU and device
};

Answer ask(const std::string& file_text, const nccl::Settings& settings);

// Returns the answer as JSON, one row a line.
std::string to_json(const Answer& answer);

}  // namespace gdr::topology::oracle
