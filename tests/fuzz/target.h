// The fuzz targets: for each kind of input from a peer a function that gives arbitrary ones to the
// code that takes them, and checks what has to hold. README.md explains how they are run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace gdr::fuzz {

// The bytes of one run, read as a script: what a peer does, one step after the other. Reads from
// the front. What is missing at the end is zero, so that every input is a script. Numbers are
// little-endian.
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

struct Target {
  const char* name;
  void (*run)(Input input);
};

// The targets, each in a file of its name; standby is in rails.cc.
void run_arrivals(Input input);
void run_handle(Input input);
void run_hello(Input input);
void run_kept_socket(Input input);
void run_rails(Input input);
void run_reply(Input input);
void run_slots(Input input);
void run_standby(Input input);
void run_statements(Input input);

std::span<const Target> targets();
// The target that a program of that path runs: "fuzz_" and the target's name. Ends the process
// where there is none.
const Target& target_of(std::string_view program);

// Runs a target once. Ends the process where it allocates more than any input may cost.
void run_once(const Target& target, std::span<const uint8_t> bytes);

// Ends the process with the rule that does not hold.
void check(bool holds, std::string_view rule);
// A text that a peer had a part in, and that goes to logs and to the other peer: not longer than a
// frame's, and without control characters.
void check_text(std::string_view text);

}  // namespace gdr::fuzz
