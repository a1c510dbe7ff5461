#include <algorithm>
#include <filesystem>
#include <optional>

#include "tools/common/pattern.h"
#include "tools/common/sizes.h"
#include "tools/perf/columns.h"
#include "tools/perf/rank_setup.h"
#include "tools/perf/ring.h"

namespace gdr::tools {
namespace {
constexpr size_t kGuardBytes = 64;  // after the output; must not change
constexpr char kGuardValue = '\x5a';
constexpr size_t kByteBudget = size_t{256} << 20;  // of all default iterations of one size

// What one rank found out about all-reduces of one size.
struct Sample {
  double microseconds = 0;  // of one
  uint64_t wrong = 0;       // elements
};

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// One rank's run over all sizes.
class AllReduce : Measurement {
 public:
  AllReduce(Rank& rank, const PerfOptions& options, RankSetup setup)
      : Measurement(rank, options, std::move(setup)) {}

  Status open();
  Status sweep(const std::vector<size_t>& sizes);
  Status finish();
  uint64_t wrong() const { return wrong_; }

 private:
  Status one_size(size_t bytes);
  Result<bool> is_stopped();
  Result<AllReduceTiming> run(size_t count, bool in_place);
  Result<Sample> verify(size_t count, bool in_place);
  Status measure(size_t count, bool in_place, Sample* mine);
  void note(const AllReduceRow& row);

  std::optional<Ring> ring_;
  uint64_t wrong_ = 0;
  double bus_bandwidth_sum_ = 0;
  size_t timings_ = 0;
  nlohmann::json rows_ = nlohmann::json::array();
};

Status AllReduce::open() {
  auto ring = Ring::open(rank_, setup_, options_);
  if (!ring) return forward_error(ring);
  ring_.emplace(std::move(*ring));
  return {};
}

// Runs one all-reduce over new data and checks the result of this rank. No round has the data of an
// earlier one, which might still be in the buffers.
Result<Sample> AllReduce::verify(size_t count, bool in_place) {
  uint64_t seed = mix64(options_.seed + rows_.size()) ^ count << 1 ^ (in_place ? 1 : 0);
  char* guard = reinterpret_cast<char*>(ring_->output() + count);
  std::memset(ring_->output(), 0xff, count * kElementBytes);
  fill_elements(in_place ? ring_->output() : ring_->input(), count, seed, rank_.rank());
  std::memset(guard, kGuardValue, kGuardBytes);
  Sample mine;
  const Clock::time_point start = Clock::now();
  if (Status done = ring_->all_reduce(count, in_place); !done) return forward_error(done);
  mine.microseconds = microseconds_since(start);
  mine.wrong = count_wrong_elements(ring_->output(), count, seed, rank_.nranks());
  for (size_t i = 0; i < kGuardBytes; ++i) mine.wrong += guard[i] != kGuardValue;
  return mine;
}

// Measures a series after a barrier.
Status AllReduce::measure(size_t count, bool in_place, Sample* mine) {
  // Repeated in-place sums of other values would overflow to infinity, and arithmetic on infinities
  // or denormal numbers may run at another speed than on zeroes.
  std::memset(ring_->output(), 0, count * kElementBytes);
  std::memset(ring_->input(), 0, count * kElementBytes);
  Status done;
  for (size_t i = 0; done && i < options_.warmup; ++i) done = ring_->all_reduce(count, in_place);
  if (done) done = rank_.barrier("timed all-reduces start");
  rank_.board().set_state(fmt::format("all-reducing {}", human_bytes(count * kElementBytes)));
  size_t times = iterations(count * kElementBytes, kByteBudget, 5, 20);
  const Clock::time_point start = Clock::now();
  for (size_t i = 0; done && i < times; ++i) done = ring_->all_reduce(count, in_place);
  mine->microseconds = microseconds_since(start) / static_cast<double>(times);
  return done;
}

// Verifies one all-reduce, then measures a series; with --until the verified one is what is
// measured. The time is the mean of all ranks, as in nccl-tests.
Result<AllReduceTiming> AllReduce::run(size_t count, bool in_place) {
  Sample mine;
  if (options_.check) {
    auto verified = verify(count, in_place);
    if (!verified) return forward_error(verified);
    mine = *verified;
  }
  if (!options_.check || options_.until.empty()) {
    if (Status done = measure(count, in_place, &mine); !done) return forward_error(done);
  }
  auto all = rank_.allgather_values("timed all-reduces ended", mine);
  if (!all) return forward_error(all);
  AllReduceTiming timing;
  timing.checked = options_.check;
  for (const Sample& sample : *all) {
    timing.microseconds += sample.microseconds / rank_.nranks();
    timing.wrong += sample.wrong;
  }
  return timing;
}

Status AllReduce::one_size(size_t bytes) {
  size_t count = bytes / kElementBytes;
  rank_.board().set_state(fmt::format("verifying an all-reduce of {}", human_bytes(bytes)));
  auto out_of_place = run(count, false);
  if (!out_of_place) return forward_error(out_of_place);
  auto in_place = run(count, true);
  if (!in_place) return forward_error(in_place);
  note(AllReduceRow{count * kElementBytes, count, kElementType, rank_.nranks(), *out_of_place,
                    *in_place});
  return {};
}

void AllReduce::note(const AllReduceRow& row) {
  print(format_row(row));
  nlohmann::json entry = {{"bytes", row.bytes}, {"count", row.count}};
  for (auto [name, timing] :
       {std::pair{"out_of_place", &row.out_of_place}, std::pair{"in_place", &row.in_place}}) {
    double busbw = bus_bandwidth(row.bytes, timing->microseconds, row.ranks);
    entry[name] = {{"time_us", timing->microseconds},
                   {"algbw_gb_s", algorithm_bandwidth(row.bytes, timing->microseconds)},
                   {"busbw_gb_s", busbw},
                   {"wrong", timing->wrong}};
    wrong_ += timing->wrong;
    bus_bandwidth_sum_ += busbw;
    ++timings_;
  }
  rows_.push_back(std::move(entry));
}

// Whether the file that ends the run exists for any rank, so that all of them end together.
Result<bool> AllReduce::is_stopped() {
  std::error_code ignored;
  const char exists = std::filesystem::exists(options_.until, ignored) ? 1 : 0;
  auto all = rank_.allgather_values("another round", exists);
  if (!all) return forward_error(all);
  return std::ranges::count(*all, 1) > 0;
}

Status AllReduce::sweep(const std::vector<size_t>& sizes) {
  print(all_reduce_header());
  while (true) {
    for (size_t bytes : sizes) {
      if (Status done = one_size(bytes); !done) return done;
    }
    if (options_.until.empty()) return {};
    auto stopped = is_stopped();
    if (!stopped) return forward_error(stopped);
    if (*stopped) return {};
  }
}

Status AllReduce::finish() {
  if (rank_.rank() != 0) return {};
  double average = timings_ > 0 ? bus_bandwidth_sum_ / static_cast<double>(timings_) : 0;
  print(fmt::format("# Out of bounds values : {} {}", wrong_, wrong_ == 0 ? "OK" : "FAILED"));
  print(fmt::format("# Avg bus bandwidth    : {:.6g}", average));
  print(options_.check ? fmt::format("# {} ranks, {} {}: {} wrong", rank_.nranks(), rows_.size(),
                                     options_.until.empty() ? "sizes" : "rows", wrong_)
                       : "# nothing checked (--no-check)");
  write_report({{"tool", "all_reduce"},
                {"dtype", kElementType},
                {"channels", options_.channels},
                {"results", rows_},
                {"average_busbw_gb_s", average},
                {"wrong", wrong_}});
  return {};
}
}  // namespace

int run_all_reduce(Rank& rank, const PerfOptions& options) {
  auto measure = [&](RankSetup setup) -> Result<uint64_t> {
    AllReduce run(rank, options, std::move(setup));
    Status done = run.open();
    if (done) done = run.sweep(*size_sweep(options.begin, options.end, options.factor));
    if (done) done = run.finish();
    if (!done) return forward_error(done);
    return run.wrong();
  };
  return run_measurement(rank, options, options.slice, measure);
}

}  // namespace gdr::tools
