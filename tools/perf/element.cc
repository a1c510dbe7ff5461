#include "tools/perf/element.h"

#include <fmt/format.h>

#include "tools/common/pattern.h"

namespace gdr::tools {
namespace {
// Returns a value below 64, so that sums over fewer than 2^18 ranks are exact in float32.
uint32_t test_value(uint64_t seed, int rank, size_t index) {
  return static_cast<uint32_t>(
      mix64(seed ^ (static_cast<uint64_t>(rank) + 1) << 40 ^ index * 0x9e3779b97f4a7c15ull) >> 58);
}

template <class T>
void add(void* out, const void* a, const void* b, size_t count) {
  auto* sum = static_cast<T*>(out);
  const auto* left = static_cast<const T*>(a);
  const auto* right = static_cast<const T*>(b);
  for (size_t i = 0; i < count; ++i) sum[i] = left[i] + right[i];
}

template <class T>
void fill(void* out, size_t count, uint64_t seed, int rank) {
  auto* values = static_cast<T*>(out);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(test_value(seed, rank, i));
}

template <class T>
uint64_t count_wrong(const void* values, size_t count, uint64_t seed, int nranks) {
  const auto* found = static_cast<const T*>(values);
  uint64_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t sum = 0;
    for (int rank = 0; rank < nranks; ++rank) sum += test_value(seed, rank, i);
    if (found[i] != static_cast<T>(sum)) ++wrong;
  }
  return wrong;
}

template <class T>
constexpr Element make_element(const char* name) {
  return {name, sizeof(T), &add<T>, &fill<T>, &count_wrong<T>};
}

// int32 is summed as unsigned, whose overflow is defined to wrap around.
constexpr Element kElements[] = {make_element<float>("float32"), make_element<double>("float64"),
                                 make_element<uint32_t>("int32")};
}  // namespace

Result<const Element*> find_element(const std::string& name) {
  for (const Element& element : kElements) {
    if (name == element.name || (name == "float" && element.name == std::string("float32"))) {
      return &element;
    }
  }
  return fail(Code::kInvalidArgument,
              fmt::format("--dtype {}: the types are float32, float64 and int32", name));
}

}  // namespace gdr::tools
