#include "tools/doctor/burn_in_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/finding.h"
#include "tools/doctor/burn_in_gpu.h"
#include "tools/doctor/burn_in_perf.h"
#include "tools/doctor/burn_in_perftest_output.h"
#include "tools/doctor/burn_in_perftest_run.h"
#include "tools/doctor/host.h"
#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

using BurnInJson = nlohmann::json;

constexpr auto kBurnInSlack = std::chrono::seconds(15);

// The parts of an error's text that are sent or taken; they are longer where a program prints much.
constexpr size_t kMostOfAnError = 400;
constexpr size_t kMostOfAFix = 200;

// Whether a fix from the other machine says more.
bool has_general_fix(const Finding& parts) {
  return parts.fix.empty() || parts.fix == kPerftestGeneralFix || parts.fix == kPerfGeneralFix;
}

void shorten(std::string* text, size_t most) {
  if (text->size() > most) *text = text->substr(0, most) + "...";
}

std::string shortened(const std::string& text) {
  Finding parts = split_fix(text);
  shorten(&parts.text, kMostOfAnError);
  shorten(&parts.fix, kMostOfAFix);
  return to_string(parts);
}

// kInvalidUsage ends the measurements, on both machines.
BurnInJson message_of(const Error& error) {
  return {{"error", shortened(error.text)},
          {"remote", error.code == Code::kRemote},
          {"ends", error.code == Code::kInvalidUsage}};
}

bool is_true_in(const BurnInJson& message, const char* key) {
  const auto flag = message.find(key);
  return flag != message.end() && flag->is_boolean() && flag->get<bool>();
}

// The error in a message of the other machine; nothing where it has none.
std::optional<Error> error_in(const BurnInJson& message) {
  const auto text = message.find("error");
  if (text == message.end() || !text->is_string()) return {};
  Code code = is_true_in(message, "ends") ? Code::kInvalidUsage : Code::kSystem;
  if (is_true_in(message, "remote")) code = Code::kRemote;
  return Error{code,
               "on the other machine: " + topo::clean_text(shortened(text->get<std::string>()))};
}

// One error of two. A transfer that failed explains why the other end failed.
Error joined_errors(const Error& own, const Error& other) {
  if (other.code == Code::kRemote && own.code != Code::kRemote) return other;
  Finding parts = split_fix(own.text);
  const Finding others = split_fix(other.text);
  if (has_general_fix(parts) && !others.fix.empty()) parts.fix = others.fix;
  parts.text += "; " + others.text;
  const bool ends = own.code != Code::kRemote && other.code == Code::kInvalidUsage;
  return {ends ? other.code : own.code, to_string(parts)};
}

Result<std::vector<double>> numbers_in(const BurnInJson& message, size_t count) {
  const auto values = message.find("values");
  const bool is_usable = values != message.end() && values->is_array() && values->size() == count &&
                         std::all_of(values->begin(), values->end(),
                                     [](const BurnInJson& one) { return one.is_number(); });
  if (is_usable) return values->get<std::vector<double>>();
  return fail(
      Code::kInvalidUsage,
      "the other machine sends no result. Fix: install the same release of nccl-gdr on both");
}

}  // namespace

Result<BurnInSession> BurnInSession::open(const Host& host, const std::vector<BurnInCase>& cases,
                                          const Options& options) {
  BurnInSession session(host, options);
  session.own_.with = options.with;
  session.own_.paths = burn_in_paths(cases);
  if (options.with != BurnInWith::kPerf) {
    Result<Perftest> found = find_perftest(options.path);
    if (found) {
      session.own_.perftest = found->version.empty() ? "of unknown version" : found->version;
      session.own_.perftest_gpus = found->measures_gpus();
      session.perftest_ = std::move(*found);
    } else {
      session.own_.lacks = found.error().text;
    }
  }
  session.other_ = session.own_;
  if (!options.peer.is_local) {
    auto link = BurnInLink::meet(options.peer, to_json(session.own_),
                                 BurnInClock::now() + std::chrono::seconds(kBurnInPatienceSeconds));
    if (!link) return forward_error(link);
    session.other_ = burn_in_offer(link->hello());
    session.link_ = std::move(*link);
  }
  auto choice = choose_burn_in(session.own_, session.other_);
  if (!choice) return forward_error(choice);
  session.choice_ = *choice;
  return session;
}

std::string BurnInSession::measured_by() const {
  const std::string perftest = "perftest " + own_.perftest;
  if (choice_.perftest_for_host && choice_.perftest_for_gpus) return perftest;
  const bool has_gpus = own_.paths.find('g') != std::string::npos;
  if (choice_.perftest_for_host && !has_gpus) return perftest;
  if (choice_.perftest_for_host) {
    return perftest +
           " with host memory, nccl-gdr perf with GPU memory, as perftest was built "
           "without CUDA";
  }
  const auto without_fix = [](const std::string& text) { return text.substr(0, text.find(". ")); };
  if (own_.with == BurnInWith::kPerf) return "nccl-gdr perf";
  if (!own_.lacks.empty()) return "nccl-gdr perf, as " + without_fix(own_.lacks);
  if (!other_.lacks.empty()) {
    return "nccl-gdr perf, as on the other machine " + without_fix(other_.lacks);
  }
  return fmt::format("nccl-gdr perf, as perftest is {} here and {} on the other machine",
                     own_.perftest, other_.perftest);
}

bool BurnInSession::uses_perftest(const BurnInCase& one) const {
  return uses_gpu(one) ? choice_.perftest_for_gpus : choice_.perftest_for_host;
}

Result<BurnInMeasurement> BurnInSession::measure(const BurnInCase& one) {
  if (one.receiver) {
    auto unreached = why_unreached(one);
    if (!unreached) return forward_error(unreached);
    if (!unreached->empty()) {
      BurnInMeasurement nothing;
      nothing.unreached = *unreached;
      return nothing;
    }
  }
  if (uses_perftest(one)) return measure_with_perftest(one);
  const Status usable = check_gpus_of_case(*host_, one);
  if (Status started = start_together(usable); !started) return forward_error(started);
  const auto own = measure_by_perf(one, options_.peer, [this] { return other_has_ended(); });
  Result<std::vector<double>> values;
  if (own) {
    values = std::vector<double>{own->gbits, own->latency_us};
  } else {
    values = tl::unexpected(own.error());
  }
  values = share(std::move(values), 2, kPerfTimeLimit);
  if (!values) return forward_error(values);
  return BurnInMeasurement{values->at(0), values->at(1), "nccl-gdr perf"};
}

// Looks once at a pair of rails, with host memory.
Result<std::string> BurnInSession::why_unreached(const BurnInCase& one) {
  const std::pair rails(one.end.device, one.receiver->device);
  if (const auto seen = unreached_.find(rails); seen != unreached_.end()) return seen->second;
  const Result<std::string> why =
      choice_.perftest_for_host ? why_unreached_by_perftest(one) : why_unreached_by_perf(one);
  return unreached_.emplace(rails, why).first->second;
}

Result<std::string> BurnInSession::why_unreached_by_perftest(const BurnInCase& one) {
  BurnInCase plain = one;
  plain.end.gpu = plain.receiver->gpu = {};
  const auto sent = run_perftest(PerftestProgram::kProbe, perftest_ends(plain));
  if (sent) return "";
  if (sent.error().code == Code::kRemote) return sent.error().text;
  return tl::unexpected(sent.error());
}

// The end that connects is the one that sends.
Result<PerftestEnds> BurnInSession::perftest_ends(const BurnInCase& one) const {
  PerftestEnds ends{one.receiver.value_or(one.end), one.end, {}, {}};
  for (const bool by_gid : {false, true}) {
    Result<PerftestFabric> server = perftest_fabric(*host_, ends.server, by_gid);
    Result<PerftestFabric> client = perftest_fabric(*host_, ends.client, by_gid);
    if (!server) return forward_error(server);
    if (!client) return forward_error(client);
    ends.server_fabric = *server;
    ends.client_fabric = *client;
    if (server->gid_index.has_value() == client->gid_index.has_value()) break;
  }
  if (Status usable = check_gpus_of_case(*host_, one); !usable) return forward_error(usable);
  return ends;
}

Result<BurnInMeasurement> BurnInSession::measure_with_perftest(const BurnInCase& one) {
  const Result<PerftestEnds> ends = perftest_ends(one);
  Result<double> gbits = run_perftest(PerftestProgram::kWriteBandwidth, ends);
  if (!gbits) return forward_error(gbits);
  const bool has_gpu = uses_gpu(one);
  const auto program = has_gpu ? PerftestProgram::kSendLatency : PerftestProgram::kWriteLatency;
  Result<double> latency = run_perftest(program, ends);
  const std::string by = fmt::format("ib_write_bw {}", own_.perftest);
  // Not every release of perftest measures the latency of GPU memory.
  const bool is_optional = has_gpu && !latency && latency.error().code == Code::kSystem;
  if (!latency && !is_optional) return forward_error(latency);
  return BurnInMeasurement{*gbits, latency.value_or(0), by};
}

Result<double> BurnInSession::run_perftest(PerftestProgram program,
                                           const Result<PerftestEnds>& ends) {
  const bool serves = options_.peer.rank == 0;
  const bool connects = options_.peer.is_local || !serves;
  const int port = options_.peer.is_local ? free_tcp_port() : options_.peer.port + 1;
  const auto spec_of = [&](const BurnInEnd& end, const PerftestFabric& fabric) {
    // CUDA's environment stays, and with it the numbers of the GPUs.
    return ChildSpec{path_of(*perftest_, program),
                     perftest_arguments(program, *perftest_, end, fabric, port),
                     {"LC_ALL=C"},
                     end.cpus};
  };
  const PerftestEnds used = ends.value_or(PerftestEnds{});
  PerftestRun run(program, spec_of(used.server, used.server_fabric),
                  spec_of(used.client, used.client_fabric));
  Status started;
  if (!ends) started = tl::unexpected(ends.error());
  if (started && serves) started = run.start_server(port);
  started = start_together(started);
  if (!started) return forward_error(started);
  if (connects)
    started = run.start_client(options_.peer.is_local ? "127.0.0.1" : options_.peer.address, port);
  Result<std::vector<double>> values;
  if (started) {
    const auto grace = program == PerftestProgram::kProbe ? kPerftestProbeGrace : kBurnInGrace;
    auto value = run.finish([this] { return other_has_ended(); }, kPerftestTimeLimit, grace);
    if (value) {
      values = std::vector<double>{*value};
    } else {
      values = forward_error(value);
    }
  } else {
    values = forward_error(started);
  }
  values = share(std::move(values), 1, kPerftestTimeLimit);
  if (!values) return forward_error(values);
  return values->at(0);
}

// Whether the other machine has sent its result, or has left.
bool BurnInSession::other_has_ended() const { return link_ && link_->has_news(); }

// Returns once both machines are ready, with the error of the one that is not.
Status BurnInSession::start_together(const Status& own) {
  if (!link_) return own;
  const BurnInJson message = own ? BurnInJson::object() : message_of(own.error());
  const auto received =
      link_->exchange(message, BurnInClock::now() + kPerftestListenLimit + kBurnInSlack);
  if (!received) return tl::unexpected(received.error());
  const std::optional<Error> other = error_in(*received);
  if (!own && other) return tl::unexpected(joined_errors(own.error(), *other));
  if (!own) return own;
  if (other) return tl::unexpected(*other);
  return {};
}

// Exchanges the results of a measurement, which took at most `limit`.
Result<std::vector<double>> BurnInSession::share(Result<std::vector<double>> own, size_t count,
                                                 BurnInClock::duration limit) {
  if (!link_) return own;
  const BurnInJson message = own ? BurnInJson{{"values", *own}} : message_of(own.error());
  const auto received = link_->exchange(message, BurnInClock::now() + limit + kBurnInSlack);
  if (!received) return tl::unexpected(received.error());
  const std::optional<Error> other = error_in(*received);
  if (!own && other) return tl::unexpected(joined_errors(own.error(), *other));
  if (!own) return own;
  if (other) return tl::unexpected(*other);
  Result<std::vector<double>> theirs = numbers_in(*received, count);
  if (!theirs || options_.peer.rank != 0) return theirs;
  return own;
}

}  // namespace gdr::tools::doctor
