#include "tools/doctor/burn_in_perf.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/finding.h"
#include "tools/common/exit_codes.h"
#include "tools/doctor/burn_in_child.h"
#include "tools/topo/labels.h"
#include "topology/bdf.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kPerfBytes[] = "4M";

// What the plugin warns of when a call fails or a connection is lost, which names the cause; "" for
// another line, such as a warning about a setting.
std::string failure_in_log(const std::string& line) {
  constexpr std::string_view kWarning = " NCCL WARN NET/GDR : ";
  const size_t at = line.find(kWarning);
  if (at == std::string::npos) return "";
  const std::string text = line.substr(at + kWarning.size());
  if (text.find(" <-> ") != std::string::npos) return text;
  for (const char* call :
       {"init: ", "listen: ", "connect: ", "accept: ", "regMr: ", "regMrDmaBuf: "}) {
    if (text.starts_with(call)) return text;
  }
  return "";
}

// The cause by the plugin's log, or else the errors of perf, which begin with the program's name,
// in one line.
std::string perf_errors(const std::string& output) {
  std::istringstream lines(output);
  std::string errors;
  for (std::string line; std::getline(lines, line);) {
    if (const std::string cause = failure_in_log(line); !cause.empty()) {
      return topo::clean_text(cause);
    }
    constexpr char kPrefix[] = "nccl-gdr: ";
    if (!line.starts_with(kPrefix)) continue;
    errors += (errors.empty() ? "" : "; ") + line.substr(sizeof kPrefix - 1);
  }
  return topo::clean_text(errors);
}

// A rail that fails must not be replaced by another one, whose bandwidth would be measured.
const std::vector<std::string>& environment_of_perf() {
  static const std::vector<std::string> variables = {"GDR_NCCL_FAILOVER=0"};
  return variables;
}

// The probe gives up early: 4.096 us x 2^16 x (7 + 1) are 2 seconds until a message is lost, where
// the default is over 30, and a QP is not moved to RTR for a minute.
const std::vector<std::string>& environment_of_probe() {
  static const std::vector<std::string> variables = {"GDR_NCCL_FAILOVER=0", "NCCL_IB_TIMEOUT=16",
                                                     "NCCL_IB_RETRY_CNT=7",
                                                     "NCCL_IB_MQP_RETRY_CNT=5"};
  return variables;
}

std::string devices_for_perf(const BurnInCase& one) {
  if (!one.receiver) return std::to_string(one.end.device);
  return fmt::format("{},{}", one.end.device, one.receiver->device);
}

std::string memory_for_perf(const BurnInEnd& end) {
  return end.gpu ? fmt::format("cuda:{}", end.cuda_number.value_or(0)) : "host";
}

std::string memory_for_perf(const BurnInCase& one) {
  if (!one.receiver || !uses_gpu(one)) return memory_for_perf(one.end);
  return memory_for_perf(one.end) + "," + memory_for_perf(*one.receiver);
}

// Whether the description of a rank's memory (RankMemory::text) has the PCI address.
bool is_memory_of(const std::string& memory, const std::string& address) {
  const size_t begin = memory.find('('), end = memory.find(')');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return false;
  const auto used = topology::Bdf::parse(memory.substr(begin + 1, end - begin - 1));
  return used && used == topology::Bdf::parse(address);
}

// Whether a rank was on the HCA and in the memory of the end. Throws where the report lacks them.
Status check_end_of_perf(const nlohmann::json& report, size_t rank, const BurnInEnd& end) {
  const auto& devices = report.at("devices");
  const std::string name = devices.at(static_cast<size_t>(end.device)).at("name");
  if (name.substr(0, name.find(':')) != end.hca) {
    return fail(Code::kInternal,
                fmt::format("device {} of the plugin is {} and not {}", end.device, name, end.hca));
  }
  const auto& used = report.at("ranks").at(rank);
  if (const int device = used.value("device", end.device); device != end.device) {
    return fail(Code::kInternal,
                fmt::format("rank {} used device {} and not {}", rank, device, end.device));
  }
  const std::string memory = used.at("memory");  // "cuda:0 (0000:1A:00.0)"
  if (end.gpu && !is_memory_of(memory, end.gpu_address)) {
    return fail(Code::kInternal, fmt::format("the memory was that of {} and not of the GPU {}",
                                             memory, end.gpu_address));
  }
  return {};
}

}  // namespace

std::vector<std::string> perf_probe_arguments(const BurnInCase& one) {
  return {"perf",
          "sendrecv",
          "--dev",
          devices_for_perf(one),
          "--memory",
          "host",
          "-b",
          "8",
          "-e",
          "8",
          "-n",
          "10",
          "--test",
          "lat",
          "--no-check",
          "--timeout",
          std::to_string(kBurnInPatienceSeconds),
          "--json",
          "-"};
}

std::vector<std::string> perf_arguments(const BurnInCase& one, const BurnInPeer& peer) {
  std::vector<std::string> arguments = {"perf",      "sendrecv",
                                        "--dev",     devices_for_perf(one),
                                        "--memory",  memory_for_perf(one),
                                        "-b",        "8",
                                        "-e",        kPerfBytes,
                                        "--seconds", std::to_string(kBurnInSeconds),
                                        "--timeout", std::to_string(kBurnInPatienceSeconds),
                                        "--json",    "-"};
  arguments.push_back("--peak");
  if (peer.is_local) return arguments;
  arguments.insert(arguments.end(), {"--root", fmt::format("{}:{}", peer.address, peer.port + 1),
                                     "--rank", std::to_string(peer.rank)});
  return arguments;
}

Result<BurnInMeasurement> parse_perf_result(const BurnInCase& one, const std::string& json) {
  try {
    const auto report = nlohmann::json::parse(json);
    // Rank 0 is this machine's.
    Status used = check_end_of_perf(report, 0, one.end);
    if (used && one.receiver) used = check_end_of_perf(report, 1, *one.receiver);
    if (!used) return forward_error(used);
    const auto& rows = report.at("bandwidth");  // at() throws where there is none
    const double mib_s = rows.at(rows.size() - 1).at("average_mib_s").get<double>();
    const double latency = report.at("latency").at(0).at("typical_us").get<double>();
    return BurnInMeasurement{mib_s * 8 * (1 << 20) / 1e9, latency, "nccl-gdr perf"};
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kInternal, std::string("the result cannot be read: ") + error.what());
  }
}

Error unfinished_perf(bool other_is_first, const std::string& printed) {
  const auto seconds = [](BurnInClock::duration time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
  };
  std::string text =
      other_is_first
          ? fmt::format("nccl-gdr perf was ended {} s after the other machine's end of it",
                        seconds(kBurnInGrace))
          : fmt::format("nccl-gdr perf did not end within {} s", seconds(kPerfTimeLimit));
  const std::string errors = perf_errors(printed);
  if (!errors.empty()) text += ": " + split_fix(errors).text;
  return {Code::kSystem, text + ". Fix: " + kPerfGeneralFix};
}

namespace {

std::string errors_of_perf(const ChildProcess& child) {
  const std::string errors = perf_errors(child.errors());
  return errors.empty() ? "nccl-gdr perf " + child.how_it_ended() : errors;
}

}  // namespace

Result<BurnInMeasurement> measure_by_perf(const BurnInCase& one, const BurnInPeer& peer,
                                          const std::function<bool()>& other_ended) {
  // In the same environment CUDA counts the GPUs as it did for the doctor.
  auto child = ChildProcess::start({.program = "/proc/self/exe",
                                    .arguments = perf_arguments(one, peer),
                                    .environment = environment_of_perf()});
  if (!child) return forward_error(child);
  const bool other_is_first =
      wait_for_ends([&] { return child->has_ended(); }, other_ended, kPerfTimeLimit, kBurnInGrace);
  const bool has_ended = child->has_ended();
  child->end();
  if (!has_ended) return tl::unexpected(unfinished_perf(other_is_first, child->errors()));
  const int status = child->exit_status();
  if (status == kExitOk) {
    if (peer.rank != 0) return BurnInMeasurement{};
    return parse_perf_result(one, child->output());
  }
  const std::string errors = errors_of_perf(*child);
  if (status == kExitFailed) return fail(Code::kRemote, "the transfer failed: " + errors);
  return fail(Code::kSystem, errors);
}

Result<std::string> why_unreached_by_perf(const BurnInCase& one) {
  auto child = ChildProcess::start({.program = "/proc/self/exe",
                                    .arguments = perf_probe_arguments(one),
                                    .environment = environment_of_probe()});
  if (!child) return forward_error(child);
  const bool has_ended = child->wait_until(BurnInClock::now() + kPerfTimeLimit);
  child->end();
  if (!has_ended) return tl::unexpected(unfinished_perf(false, child->errors()));
  if (child->exit_status() == kExitOk) return "";
  if (child->exit_status() == kExitFailed) return errors_of_perf(*child);
  return fail(Code::kSystem, errors_of_perf(*child));
}

}  // namespace gdr::tools::doctor
