// Registered memory of the host or of a (fake) GPU, filled and compared alike.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/unique_fd.h"
#include "tests/fakes/cuda/fake_driver.h"
#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {

inline const fake_cuda::Hooks& hooks() { return fake_cuda::Driver::load().hooks; }

// Exports device memory, from the start of a page on and in whole pages. Invalid where the driver
// refuses.
gdr::UniqueFd export_dmabuf(int gpu, uint64_t address, size_t bytes);
MrPtr reg_dmabuf(Endpoint& endpoint, int fd, uint64_t offset, size_t bytes, uint64_t iova);

class Memory {
 public:
  // `gpu` is a device of the fake driver, which is loaded then, or -1 for host memory.
  Memory(Endpoint& endpoint, int gpu, size_t bytes);

  uint64_t address(size_t offset = 0) const { return address_ + offset; }
  ibv_sge sge(size_t offset, size_t length) const {
    return {address(offset), static_cast<uint32_t>(length), mr_->lkey};
  }
  ibv_sge sge() const { return sge(0, bytes_); }
  uint32_t rkey() const { return mr_->rkey; }
  bool registered() const { return mr_ != nullptr; }

  // Between processes, these two are ordered with the HCA's copies through the other process, which
  // the thread sanitizer does not see.
  __attribute__((no_sanitize("thread"))) void fill(uint8_t seed);
  // Returns the index of the first byte that differs from fill(seed), or the size.
  __attribute__((no_sanitize("thread"))) size_t mismatch(uint8_t seed) const;
  // A copy of what it holds.
  __attribute__((no_sanitize("thread"))) std::vector<uint8_t> bytes() const;
  bool holds(uint8_t seed) const { return mismatch(seed) == bytes_; }

 private:
  uint8_t* view() const;

  const size_t bytes_;
  std::vector<uint8_t> host_;
  std::unique_ptr<fake_cuda::DeviceBuffer> device_;
  uint64_t address_ = 0;
  MrPtr mr_;
};

// Two connected endpoints, with memory of device 0 at a and of device `to_gpu` at b.
struct GpuBuffers : Pair {
  GpuBuffers(int to_gpu, size_t bytes, const Options& a_options = {}, const Options& b_options = {})
      : Pair(a_options, b_options), from(a, 0, bytes), to(b, to_gpu, bytes) {}
  Request request(ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) const {
    return Request(opcode, from.sge(), to);
  }
  Memory from;
  Memory to;
};

}  // namespace softhca_test
