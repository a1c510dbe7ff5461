// The memory of one end of a connection, and what must be in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "drivers/cuda/gpu_workspace.h"
#include "tests/fakes/cuda/fake_driver.h"
#include "tests/softhca/rail_loss_scenario.h"
#include "tools/net/deleters.h"

namespace gdr::rail_loss {

// What memory holds where no message is expected: a byte that a late or a stray write changes.
constexpr uint8_t kCanary = 0xee;
// What replaces a message at the sender once it is sent: whoever sends it again sends this.
constexpr uint8_t kSent = 0xdd;

class Memory {
 public:
  // GPU memory is that of the fake CUDA driver, whose device 0 has to be current.
  Memory(MemoryKind kind, size_t bytes);

  // Registers it as NCCL does.
  tools::Registration register_with(tools::Net& net, void* comm);

  char* address(size_t offset) const { return address_ + offset; }
  void fill(size_t offset, size_t bytes, uint8_t value);
  // The bytes of a message.
  void write_message(const Part& part, int connection, uint64_t seed);
  // Whether those are in the buffer, and the rest of the buffer is untouched.
  bool holds_message(const Part& part, int connection, uint64_t seed) const;
  // The offset of the first byte that is not kCanary; nothing if all are.
  std::optional<size_t> first_change() const;

 private:
  const MemoryKind kind_;
  const size_t bytes_;
  std::vector<char> host_;
  std::unique_ptr<fake_cuda::DeviceBuffer> gpu_;
  char* address_;  // for the plugin
  char* view_;     // for the CPU
};

}  // namespace gdr::rail_loss
