#include "tests/unit/softhca/memory.h"

#include <fcntl.h>
#include <unistd.h>

namespace softhca_test {

namespace {

uint8_t byte_at(uint8_t seed, size_t i) { return static_cast<uint8_t>(seed + i * 7 + i / 251); }

}  // namespace

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
  // The HCA requires a descriptor, but does not use it.
  int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  mr_.reset(ibv_reg_dmabuf_mr(endpoint.pd(), 0, bytes, address_, fd, kAllAccess));
  close(fd);
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
