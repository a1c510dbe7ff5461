// Measures the registration cache with 10^2 to 10^4 live registrations, over a verbs library
// in which registering and deregistering are a malloc and a free. Run
// build/tests/registration_cache_bench; the column "each" has the seconds of one operation.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "transport/device/registration_cache.h"

namespace gdr {
namespace {

constexpr size_t kPage = 4096;
constexpr uintptr_t kBase = 1ull << 32;
constexpr size_t kBatch = 1000;

verbs::Api free_of_charge() {
  verbs::Api api;
  api.reg_mr = [](ibv_pd*, void* addr, size_t bytes, int) {
    auto* mr = new ibv_mr{};
    mr->addr = addr;
    mr->length = bytes;
    return mr;
  };
  api.dereg_mr = [](ibv_mr* mr) {
    delete mr;
    return 0;
  };
  return api;
}

// The i-th of count ranges, none of which covers a later one.
using Layout = transport::MemoryRegion (*)(uintptr_t i, uintptr_t count);

transport::MemoryRegion apart(uintptr_t i, uintptr_t) { return {kBase + 2 * i * kPage, kPage}; }

// Each over most of the one before: every point lies in up to count ranges.
transport::MemoryRegion staircase(uintptr_t i, uintptr_t count) {
  return {kBase + i * kPage, count * kPage};
}

// Each around all before it.
transport::MemoryRegion nested(uintptr_t i, uintptr_t count) {
  return {kBase + (count - i) * kPage, (2 * i + 1) * kPage};
}

// Small ones in groups of 100, each group within one large range.
transport::MemoryRegion grouped(uintptr_t i, uintptr_t) {
  uintptr_t group = kBase + i / 100 * 256 * kPage;
  if (i % 100 == 99) return {group, 256 * kPage};
  return {group + (1 + i % 100 * 2) * kPage, kPage};
}

class Filled {
 public:
  Filled(Layout layout, size_t count) {
    for (size_t i = 0; i < count; ++i) ranges_.push_back(layout(i, count));
    for (const transport::MemoryRegion& range : ranges_) mrs_.push_back(*cache_.acquire(range, {}));
    std::shuffle(ranges_.begin(), ranges_.end(), std::minstd_rand());
  }
  ~Filled() {
    for (ibv_mr* mr : mrs_) cache_.release(mr);
  }
  Filled(const Filled&) = delete;
  Filled& operator=(const Filled&) = delete;

  transport::RegistrationCache& cache() { return cache_; }
  // In an order that neither the cache nor the processor can guess.
  const std::vector<transport::MemoryRegion>& ranges() const { return ranges_; }

 private:
  verbs::Api api_ = free_of_charge();
  transport::RegistrationCache cache_{api_, nullptr, "hca0"};
  std::vector<transport::MemoryRegion> ranges_;
  std::vector<ibv_mr*> mrs_;
};

void count_each(benchmark::State& state, size_t per_iteration) {
  using benchmark::Counter;
  state.counters["each"] = Counter(static_cast<double>(per_iteration),
                                   Counter::kIsIterationInvariantRate | Counter::kInvert);
}

// An acquire that finds a registration, and a release after which it is still in use.
void hit(benchmark::State& state, Layout layout) {
  Filled filled(layout, static_cast<size_t>(state.range(0)));
  size_t next = 0;
  for (auto _ : state) {
    filled.cache().release(*filled.cache().acquire(filled.ranges()[next], {}));
    if (++next == filled.ranges().size()) next = 0;
  }
  count_each(state, 1);
}

// Ranges that no live one covers although they overlap some, spread over the filled part.
transport::MemoryRegion uncovered(const transport::MemoryRegion& range) {
  return {range.address, 1ull << 40};
}

enum class Timed { kMiss, kLastRelease };

void miss_or_release(benchmark::State& state, Layout layout, Timed timed) {
  Filled filled(layout, static_cast<size_t>(state.range(0)));
  std::vector<ibv_mr*> mrs(kBatch);
  size_t next = 0;
  auto acquire_all = [&] {
    // The one with the greatest end is the last, so that none covers the next.
    for (size_t i = 0; i < kBatch; ++i) {
      transport::MemoryRegion range = uncovered(filled.ranges()[next]);
      mrs[i] = *filled.cache().acquire({range.address, range.bytes + i * (kPage << 18)}, {});
      if (++next == filled.ranges().size()) next = 0;
    }
  };
  auto release_all = [&] {
    for (ibv_mr* mr : mrs) filled.cache().release(mr);
  };
  for (auto _ : state) {
    if (timed == Timed::kMiss) {
      acquire_all();
      state.PauseTiming();
      release_all();
      state.ResumeTiming();
    } else {
      state.PauseTiming();
      acquire_all();
      state.ResumeTiming();
      release_all();
    }
  }
  count_each(state, kBatch);
}

// Creates all registrations, then releases all of them.
void fill_and_empty(benchmark::State& state, Layout layout) {
  for (auto _ : state) Filled(layout, static_cast<size_t>(state.range(0)));
  count_each(state, static_cast<size_t>(state.range(0)));
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->RangeMultiplier(10)->Range(100, 10000)->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(hit, apart, apart)->Apply(sizes);
BENCHMARK_CAPTURE(hit, staircase, staircase)->Apply(sizes);
BENCHMARK_CAPTURE(hit, nested, nested)->Apply(sizes);
BENCHMARK_CAPTURE(hit, grouped, grouped)->Apply(sizes);
BENCHMARK_CAPTURE(miss_or_release, miss_apart, apart, Timed::kMiss)->Apply(sizes);
BENCHMARK_CAPTURE(miss_or_release, miss_nested, nested, Timed::kMiss)->Apply(sizes);
BENCHMARK_CAPTURE(miss_or_release, release_apart, apart, Timed::kLastRelease)->Apply(sizes);
BENCHMARK_CAPTURE(miss_or_release, release_nested, nested, Timed::kLastRelease)->Apply(sizes);
BENCHMARK_CAPTURE(fill_and_empty, nested, nested)->Apply(sizes);

}  // namespace
}  // namespace gdr

BENCHMARK_MAIN();
