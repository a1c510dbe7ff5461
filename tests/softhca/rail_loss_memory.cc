#include "tests/softhca/rail_loss_memory.h"

#include <algorithm>
#include <cstring>

#include "drivers/cuda/cuda_driver.h"

namespace gdr::rail_loss {
namespace {

constexpr size_t kLargest = size_t{8} << 20;
constexpr size_t kStarts = size_t{1} << 16;
constexpr size_t kPage = size_t{64} << 10;

// Random bytes; where those of a message begin depends on the message. They are made only once,
// because sanitizers make loops over bytes slow.
const char* message_bytes(uint32_t number, int connection, uint64_t seed) {
  static const std::vector<char> bytes = [] {
    std::vector<char> made(kLargest + kStarts);
    Random random(11);
    for (size_t i = 0; i + 8 <= made.size(); i += 8) {
      const uint64_t word = random();
      std::memcpy(made.data() + i, &word, 8);
    }
    return made;
  }();
  const uint64_t message = seed * 1000 + number * 2 + static_cast<uint64_t>(connection);
  return bytes.data() + (message * 0x9e3779b97f4a7c15 >> 48) % kStarts;
}

const char* canaries(size_t bytes) {
  static std::vector<char> made;
  if (made.size() < bytes) made.assign(bytes, static_cast<char>(kCanary));
  return made.data();
}

}  // namespace

Memory::Memory(MemoryKind kind, size_t bytes)
    : kind_(kind), bytes_((bytes + kPage - 1) / kPage * kPage + kPage) {
  if (kind == MemoryKind::kHost) {
    host_.resize(bytes_);
    address_ = view_ = host_.data();
  } else {
    gpu_ = std::make_unique<fake_cuda::DeviceBuffer>(fake_cuda::Driver::load(), 0, bytes_);
    address_ = gpu_->get();
    view_ = gpu_->view();
  }
  std::memset(view_, kCanary, bytes_);
}

tools::Registration Memory::register_with(tools::Net& net, void* comm) {
  void* handle = nullptr;
  abi::ncclResult_t result = abi::ncclSuccess;
  if (kind_ == MemoryKind::kDmaBuf) {
    const Result<UniqueFd> fd = cuda::export_dmabuf(address_, bytes_);
    if (!fd) return {};
    result = net.reg_mr_dmabuf(comm, address_, bytes_, abi::kPtrCuda, 0, fd->get(), &handle);
  } else {
    const int type = kind_ == MemoryKind::kHost ? abi::kPtrHost : abi::kPtrCuda;
    result = net.reg_mr(comm, address_, bytes_, type, &handle);
  }
  if (result != abi::ncclSuccess) return {};
  return tools::Registration(handle, tools::Deregister{&net, comm});
}

void Memory::fill(size_t offset, size_t bytes, uint8_t value) {
  std::memset(view_ + offset, value, bytes);
}

void Memory::write_message(const Part& part, int connection, uint64_t seed) {
  if (part.bytes == 0) return;  // and there may be no address
  std::memcpy(view_ + part.from, message_bytes(part.number, connection, seed), part.bytes);
}

bool Memory::holds_message(const Part& part, int connection, uint64_t seed) const {
  const char* at = view_ + part.to;
  const size_t rest = part.room - part.bytes;
  const auto is = [](const char* data, const char* expected, size_t bytes) {
    return bytes == 0 || std::memcmp(data, expected, bytes) == 0;  // else there may be no address
  };
  return is(at, message_bytes(part.number, connection, seed), part.bytes) &&
         is(at + part.bytes, canaries(rest), rest);
}

std::optional<size_t> Memory::first_change() const {
  if (std::memcmp(view_, canaries(bytes_), bytes_) == 0) return {};
  const auto changed = std::find_if(
      view_, view_ + bytes_, [](char byte) { return static_cast<uint8_t>(byte) != kCanary; });
  return static_cast<size_t>(changed - view_);
}

}  // namespace gdr::rail_loss
