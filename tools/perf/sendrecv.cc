#include <array>
#include <limits>
#include <numeric>
#include <optional>

#include "tools/common/sizes.h"
#include "tools/perf/columns.h"
#include "tools/perf/measurements.h"
#include "tools/perf/rank_setup.h"
#include "tools/ranks/link.h"

namespace gdr::tools {
namespace {
// Bytes of all default iterations of one size: enough for a steady result, within a few seconds.
constexpr size_t kBandwidthBudget = size_t{1} << 30;
constexpr size_t kLatencyBudget = size_t{64} << 20;
constexpr size_t kVerifyBudget = size_t{16} << 20;
constexpr size_t kMostMessages = size_t{1} << 50;  // of a measurement by time

// One rank's run. Rank 0 measures bandwidth as the sender, and latency as the side that begins each
// round trip.
class SendRecv : Measurement {
 public:
  using Measurement::Measurement;

  Status compare_options();
  Status open();
  void print_depth() const;
  Status sweep_bandwidth(const std::vector<size_t>& sizes);
  Status sweep_latency(const std::vector<size_t>& sizes);
  Status finish();
  uint64_t wrong() const { return wrong_; }

 private:
  size_t slots(size_t bytes) const;
  StreamShape shape_of(size_t bytes, size_t messages, size_t most_slots) const;
  Status verify(size_t bytes);
  Status one_bandwidth(size_t bytes);
  Status one_latency(size_t bytes);
  size_t first_iterations(size_t bytes, size_t budget, size_t most) const {
    return options_.seconds > 0 ? kFirstIterations : iterations(bytes, budget, 16, most);
  }
  template <class Run>
  Status measure(size_t first, size_t most, Run run);

  Links links_;
  std::optional<Buffer> out_;
  std::optional<Buffer> in_;
  Registration out_mr_;
  Registration in_mr_;
  Endpoint send_;
  Endpoint recv_;
  uint64_t wrong_ = 0;
  uint64_t verified_ = 0;
  nlohmann::json rows_;
};

Status SendRecv::open() {
  Net& net = setup_.net();
  auto links =
      connect_links(rank_, net, setup_.context.get_deleter().context, setup_.dev, {{0, 1}, {1, 0}});
  if (!links) return forward_error(links);
  links_ = std::move(*links);
  StreamShape largest{options_.end, 1, 1, 1};
  size_t bytes = std::max<size_t>(largest.stride(), 4096) * options_.group;
  const RankMemory& memory = setup_.memory;
  auto out = memory.allocate(bytes);
  auto in = memory.allocate(bytes);
  if (!out) return forward_error(out);
  if (!in) return forward_error(in);
  out_.emplace(std::move(*out));
  in_.emplace(std::move(*in));
  void* send_comm = links_.send[rank_.rank()].get();
  void* recv_comm = links_.recv[1 - rank_.rank()].get();
  auto out_mr = register_memory(net, send_comm, *out_, setup_.registered_by);
  if (!out_mr) return forward_error(out_mr);
  out_mr_ = std::move(*out_mr);
  auto in_mr = register_memory(net, recv_comm, *in_, setup_.registered_by);
  if (!in_mr) return forward_error(in_mr);
  in_mr_ = std::move(*in_mr);
  send_ = Endpoint{&net, send_comm, out_mr_.get(), out_->data(), true, memory.gpu()};
  recv_ = Endpoint{&net, recv_comm, in_mr_.get(), in_->data(), false, memory.gpu()};
  return {};
}

// Each rank goes by its own options, so that those that decide what is measured must be the same.
Status SendRecv::compare_options() {
  const PerfOptions& o = options_;
  const std::string mine = fmt::format(
      "--begin {} --end {} --factor {} --iters {} --warmup {} --seconds {} --test {} "
      "--group {}{}",
      o.begin, o.end, o.factor, o.iterations, o.warmup, o.seconds, o.test, o.group,
      o.check ? "" : " --no-check");
  auto all = rank_.allgather("options are compared", mine);
  if (!all) return forward_error(all);
  if ((*all)[0] == (*all)[1]) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("the ranks have other options: rank 0 {}; rank 1 {}. Fix: start the same "
                          "command on both machines, but for --rank",
                          (*all)[0], (*all)[1]));
}

void SendRecv::print_depth() const {
  const PerfOptions& o = options_;
  print(o.group == 1
            ? fmt::format(
                  "# depth {}: requests in flight; in the latency test, receives posted ahead",
                  o.depth)
            : fmt::format("# depth {}, group {}: receives in flight, and messages of each", o.depth,
                          o.group));
}

// Returns how many messages of this size fit into the buffer side by side, up to those in flight.
size_t SendRecv::slots(size_t bytes) const {
  StreamShape one{bytes, 1, 1, 1};
  size_t fit = out_->bytes() / std::max<size_t>(one.stride(), 1);
  return std::clamp<size_t>(fit, 1, options_.depth * options_.group);
}

// Whole groups of at least so many messages, each group side by side.
StreamShape SendRecv::shape_of(size_t bytes, size_t messages, size_t most_slots) const {
  const size_t group = options_.group;
  const size_t groups = (messages + group - 1) / group;
  return {bytes, groups * group, options_.depth, std::min(most_slots, slots(bytes)), group};
}

// Verifies both connections: each rank sends in turn.
Status SendRecv::verify(size_t bytes) {
  if (!options_.check) return {};
  const size_t messages = default_iterations(bytes, kVerifyBudget, 2, 64);
  StreamShape shape = shape_of(bytes, messages, std::numeric_limits<size_t>::max());
  for (int sender = 0; sender < 2; ++sender) {
    const Endpoint& end = rank_.rank() == sender ? send_ : recv_;
    auto wrong = verify_stream(end, shape, rank_, options_.seed ^ bytes << 8, 2 * sender);
    if (!wrong) return forward_error(wrong);
    wrong_ += *wrong;
    verified_ += end.sends ? 0 : shape.messages;
  }
  return {};
}

// Calls run(iterations), which returns the seconds that it took: once, or with --seconds until it
// has taken long enough at rank 0. The last call is the measurement.
template <class Run>
Status SendRecv::measure(size_t first, size_t most, Run run) {
  for (size_t number = first; number > 0;) {
    Result<double> took = run(number);
    if (!took) return forward_error(took);
    if (options_.seconds <= 0) return {};
    const size_t next = next_iterations(number, *took, options_.seconds, most);
    auto all = rank_.allgather_values("iterations are chosen", next);
    if (!all) return forward_error(all);
    number = all->front();  // the ranks measure the same number
  }
  return {};
}

Status SendRecv::one_bandwidth(size_t bytes) {
  const Endpoint& end = rank_.rank() == 0 ? send_ : recv_;
  StreamShape shape = shape_of(bytes, std::max<size_t>(options_.warmup, 1), options_.group);
  uint64_t yield_every = StallGuard::yield_interval(options_.root.empty() ? 2 : 1);
  auto warm = time_stream(end, shape, rank_, yield_every);
  if (!warm) return forward_error(warm);
  StreamTimes times;
  Status measured = measure(
      first_iterations(bytes, kBandwidthBudget, 5000), kMostMessages,
      [&](size_t messages) -> Result<double> {
        if (Status met = rank_.barrier("bandwidth run starts"); !met) return forward_error(met);
        rank_.board().set_state(fmt::format(
            "{} messages of {}", rank_.rank() == 0 ? "sending" : "receiving", human_bytes(bytes)));
        shape = shape_of(bytes, messages, options_.group);
        auto run = time_stream(end, shape, rank_, yield_every);
        if (!run) return forward_error(run);
        times = *run;
        return times.total;
      });
  if (!measured) return measured;
  auto all = rank_.allgather_values("bandwidth run ended", times);
  if (!all) return forward_error(all);
  BandwidthRow row = bandwidth_row(shape, times, (*all)[1]);
  print(format_row(row));
  rows_["bandwidth"].push_back({{"bytes", row.bytes},
                                {"iterations", row.iterations},
                                {"peak_mib_s", row.peak_mib_s},
                                {"average_mib_s", row.average_mib_s},
                                {"message_mpps", row.message_mpps}});
  return {};
}

Status SendRecv::sweep_bandwidth(const std::vector<size_t>& sizes) {
  print(bandwidth_header());
  for (size_t bytes : sizes) {
    rank_.board().set_state(fmt::format("verifying messages of {}", human_bytes(bytes)));
    Status done = verify(bytes);
    if (done) done = one_bandwidth(bytes);
    if (!done) return done;
  }
  return {};
}

Status SendRecv::one_latency(size_t bytes) {
  PingPongShape shape{bytes, std::max<size_t>(options_.warmup, 1), options_.depth};
  auto warm = ping_pong(send_, recv_, shape, rank_, rank_.rank() == 0);
  if (!warm) return forward_error(warm);
  std::vector<double> halves;
  Status measured = measure(first_iterations(bytes, kLatencyBudget, 1000), kMostSamples,
                            [&](size_t round_trips) -> Result<double> {
                              shape.round_trips = round_trips;
                              auto run = ping_pong(send_, recv_, shape, rank_, rank_.rank() == 0);
                              if (!run) return forward_error(run);
                              halves = std::move(*run);
                              return 2e-6 * std::accumulate(halves.begin(), halves.end(), 0.0);
                            });
  if (!measured) return measured;
  if (rank_.rank() != 0) return {};
  LatencyRow row{bytes, shape.round_trips, summarize(halves)};
  print(format_row(row));
  const LatencySummary& t = row.half_round_trip;
  rows_["latency"].push_back({{"bytes", bytes},
                              {"iterations", row.iterations},
                              {"min_us", t.min},
                              {"max_us", t.max},
                              {"typical_us", t.typical},
                              {"average_us", t.average},
                              {"stdev_us", t.stdev},
                              {"p99_us", t.p99},
                              {"p99_9_us", t.p999}});
  return {};
}

Status SendRecv::sweep_latency(const std::vector<size_t>& sizes) {
  print(latency_header());
  for (size_t bytes : sizes) {
    // Else sweep_bandwidth() has verified this size.
    Status done = options_.test == "lat" ? verify(bytes) : Status{};
    if (done) done = one_latency(bytes);
    if (!done) return done;
  }
  return {};
}

Status SendRecv::finish() {
  using Counts = std::array<uint64_t, 2>;
  auto all = rank_.allgather_values("results", Counts{wrong_, verified_});
  if (!all) return forward_error(all);
  const Counts& theirs = (*all)[1 - rank_.rank()];
  wrong_ += theirs[0];
  verified_ += theirs[1];
  if (rank_.rank() != 0) return {};
  print(options_.check ? fmt::format("# {} messages verified: {} wrong", verified_, wrong_)
                       : "# nothing verified (--no-check)");
  write_report({{"tool", "sendrecv"},
                {"depth", options_.depth},
                {"group", options_.group},
                {"bandwidth", rows_.value("bandwidth", nlohmann::json::array())},
                {"latency", rows_.value("latency", nlohmann::json::array())},
                {"verified", verified_},
                {"wrong", wrong_}});
  return {};
}
}  // namespace

int run_sendrecv(Rank& rank, const PerfOptions& options) {
  auto measure = [&](RankSetup setup) -> Result<uint64_t> {
    const auto sizes = size_sweep(options.begin, options.end, options.factor);
    SendRecv run(rank, options, std::move(setup));
    Status done = run.compare_options();
    if (done) done = run.open();
    if (done) run.print_depth();
    if (done && options.test != "lat") done = run.sweep_bandwidth(*sizes);
    if (done && options.test != "bw") done = run.sweep_latency(*sizes);
    if (done) done = run.finish();
    if (!done) return forward_error(done);
    return run.wrong();
  };
  return run_measurement(rank, options, options.end, measure);
}

}  // namespace gdr::tools
