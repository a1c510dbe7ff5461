#include "tests/unit/softhca/memory.h"

namespace softhca_test {

namespace {

uint8_t byte_at(uint8_t seed, size_t i) { return static_cast<uint8_t>(seed + i * 7 + i / 251); }

}  // namespace

gdr::UniqueFd export_dmabuf(int gpu, uint64_t address, size_t bytes) {
  const gdr::cuda::Api& api = fake_cuda::Driver::load().api;
  gdr::cuda::Context context = nullptr;
  api.primary_ctx_retain(&context, gpu);
  api.ctx_push_current(context);
  int fd = -1;
  constexpr size_t kPage = 4096;
  api.mem_get_handle_for_address_range(&fd, address, (bytes + kPage - 1) / kPage * kPage,
                                       gdr::cuda::kRangeHandleDmaBufFd, 0);
  api.ctx_pop_current(&context);
  api.primary_ctx_release(gpu);
  return gdr::UniqueFd(fd);
}

MrPtr reg_dmabuf(Endpoint& endpoint, int fd, uint64_t offset, size_t bytes, uint64_t iova) {
  return MrPtr(ibv_reg_dmabuf_mr(endpoint.pd(), offset, bytes, iova, fd, kAllAccess));
}

Memory::Memory(Endpoint& endpoint, int gpu, size_t bytes) : bytes_(bytes) {
  if (gpu < 0) {
    host_.resize(bytes);
    address_ = reinterpret_cast<uint64_t>(host_.data());
    mr_ = endpoint.reg(host_.data(), bytes);
    return;
  }
  const fake_cuda::Driver& driver = fake_cuda::Driver::load();
  driver.api.init(0);
  device_ = std::make_unique<fake_cuda::DeviceBuffer>(driver, gpu, bytes);
  address_ = device_->address();
  mr_ = reg_dmabuf(endpoint, export_dmabuf(gpu, address_, bytes).get(), 0, bytes, address_);
}

uint8_t* Memory::view() const {
  return device_ == nullptr ? const_cast<uint8_t*>(host_.data())
                            : reinterpret_cast<uint8_t*>(device_->view());
}

void Memory::fill(uint8_t seed) {
  uint8_t* bytes = view();
  for (size_t i = 0; i < bytes_; ++i) bytes[i] = byte_at(seed, i);
}

std::vector<uint8_t> Memory::bytes() const {
  std::vector<uint8_t> copy(bytes_);
  for (size_t i = 0; i < bytes_; ++i) copy[i] = view()[i];
  return copy;
}

size_t Memory::mismatch(uint8_t seed) const {
  const uint8_t* bytes = view();
  for (size_t i = 0; i < bytes_; ++i) {
    if (bytes[i] != byte_at(seed, i)) return i;
  }
  return bytes_;
}

}  // namespace softhca_test
