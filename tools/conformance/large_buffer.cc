#include "tools/conformance/large_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <set>
#include <utility>

#include "base/unique_fd.h"
#include "tools/common/pattern.h"

namespace gdr::tools {
namespace {
constexpr size_t kUnit = size_t{2} << 20;
constexpr size_t kBorders = size_t{256} << 20;
constexpr char kBlank = 0x3c;
constexpr uint64_t kStream = 80;  // of the patterns, unlike those of other cases

// The units that have pages of their own, by their number.
std::set<size_t> own_units(size_t bytes) {
  std::set<size_t> units{0, bytes / kUnit};  // the last one has the bytes past the message
  auto add_around = [&](size_t at) {
    units.insert(at / kUnit);
    if (at > 0) units.insert((at - 1) / kUnit);
  };
  for (size_t at = kBorders; at < bytes; at += kBorders) add_around(at);
  if (bytes > INT_MAX) add_around(INT_MAX);
  add_around(bytes);
  return units;
}

}  // namespace

LargeBuffer::LargeBuffer(LargeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      mapped_(other.mapped_),
      windows_(std::move(other.windows_)) {}

LargeBuffer::~LargeBuffer() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

Result<LargeBuffer> LargeBuffer::create(size_t bytes) {
  LargeBuffer made;
  made.bytes_ = bytes;
  made.mapped_ = (bytes / kUnit + 1) * kUnit;
  std::set<size_t> own = own_units(bytes);
  UniqueFd file(memfd_create("conformance", MFD_CLOEXEC));
  // The first unit of the file is the shared one.
  auto file_bytes = static_cast<off_t>((own.size() + 1) * kUnit);
  if (!file.valid() || ftruncate(file.get(), file_bytes) != 0) {
    return fail_errno(Code::kSystem, "memfd_create", errno);
  }
  void* range =
      mmap(nullptr, made.mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return fail_errno(Code::kSystem, "mmap", errno);
  made.data_ = static_cast<char*>(range);
  size_t next_in_file = kUnit;
  for (size_t unit = 0; unit * kUnit < made.mapped_; ++unit) {
    bool is_own = own.count(unit) > 0;
    size_t begin = unit * kUnit;
    void* at = mmap(made.data_ + begin, kUnit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    file.get(), static_cast<off_t>(is_own ? next_in_file : 0));
    if (at == MAP_FAILED) return fail_errno(Code::kSystem, "mmap", errno);
    if (!is_own) continue;
    next_in_file += kUnit;
    made.windows_.push_back(Window{begin, std::min(kUnit, bytes - begin)});
    std::memset(at, kBlank, kUnit);
  }
  return made;
}

void LargeBuffer::fill(uint64_t seed) {
  for (const Window& window : windows_) {
    Pattern(seed, kStream, window.begin).fill(data_ + window.begin, window.bytes);
  }
}

std::string LargeBuffer::check(uint64_t seed) const {
  for (const Window& window : windows_) {
    Pattern pattern(seed, kStream, window.begin);
    size_t wrong = pattern.first_mismatch(data_ + window.begin, window.bytes);
    if (wrong < window.bytes) {
      return fmt::format("byte {} of {} is wrong", window.begin + wrong, bytes_);
    }
  }
  for (size_t at = bytes_; at < mapped_; ++at) {
    if (data_[at] != kBlank) {
      return fmt::format("the byte {} past the end of the buffer ({} bytes) was overwritten",
                         at - bytes_, bytes_);
    }
  }
  return {};
}

}  // namespace gdr::tools
