// The bytes of one run of a fuzz target, read as a script: what a peer does, one step after the
// other. Script writes such bytes, for the seeds of the corpus.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace gdr::fuzz {

// Reads from the front. What is missing at the end is zero, so that every input is a script.
// Numbers are little-endian.
class Input {
 public:
  Input(const uint8_t* data, size_t bytes) : rest_(data, bytes) {}

  bool empty() const { return rest_.empty(); }
  std::span<const uint8_t> take(size_t most) {
    const std::span<const uint8_t> some = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(some.size());
    return some;
  }
  template <class Number>
  Number number() {
    Number value{};
    const std::span<const uint8_t> bytes = take(sizeof(value));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  uint8_t byte() { return number<uint8_t>(); }
  // 0 to limit - 1, from one byte.
  uint8_t below(uint8_t limit) { return byte() % limit; }
  // As many bytes as the next number says.
  std::span<const uint8_t> counted() { return take(number<uint16_t>()); }

  // Overwrites parts of an object: their number, and for each an offset, a length and the bytes.
  template <class Object>
  void patch(Object* object) {
    for (int left = below(kMaxPatches + 1); left > 0; --left) {
      const size_t offset = number<uint16_t>() % sizeof(Object);
      const std::span<const uint8_t> bytes =
          take(std::min<size_t>(byte(), sizeof(Object) - offset));
      if (bytes.empty()) continue;
      std::memcpy(reinterpret_cast<uint8_t*>(object) + offset, bytes.data(), bytes.size());
    }
  }

 private:
  static constexpr int kMaxPatches = 8;
  std::span<const uint8_t> rest_;
};

class Script {
 public:
  template <class Number>
  Script& number(Number value) {
    const auto* begin = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(value));
    return *this;
  }
  Script& bytes(std::initializer_list<int> values) {
    for (int value : values) bytes_.push_back(static_cast<uint8_t>(value));
    return *this;
  }
  Script& raw(const void* data, size_t size) {
    const auto* begin = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
    return *this;
  }
  // For Input::counted().
  Script& counted(const void* data, size_t size) {
    return number(static_cast<uint16_t>(size)).raw(data, size);
  }
  Script& counted(std::string_view text) { return counted(text.data(), text.size()); }
  // For Input::patch(): a patch of one number.
  template <class Number>
  Script& patch(size_t offset, Number value) {
    return bytes({1}).number(static_cast<uint16_t>(offset)).bytes({sizeof(value)}).number(value);
  }
  Script& no_patch() { return bytes({0}); }
  Script& add(const Script& other) { return raw(other.bytes_.data(), other.bytes_.size()); }

  const std::vector<uint8_t>& done() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace gdr::fuzz
