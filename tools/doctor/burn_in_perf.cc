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
constexpr char kPerfFactor[] = "524288";  // from 8 B to 4 MiB in one step

// The errors of perf, which begin with the program's name, in one line.
std::string perf_errors(const std::string& output) {
  std::istringstream lines(output);
  std::string errors;
  for (std::string line; std::getline(lines, line);) {
    constexpr char kPrefix[] = "nccl-gdr: ";
    if (!line.starts_with(kPrefix)) continue;
    errors += (errors.empty() ? "" : "; ") + line.substr(sizeof kPrefix - 1);
  }
  return topo::clean_text(errors);
}

// Whether the description of a rank's memory (RankMemory::text) has the PCI address.
bool is_memory_of(const std::string& memory, const std::string& address) {
  const size_t begin = memory.find('('), end = memory.find(')');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return false;
  const auto used = topology::Bdf::parse(memory.substr(begin + 1, end - begin - 1));
  return used && used == topology::Bdf::parse(address);
}

}  // namespace

std::vector<std::string> perf_arguments(const BurnInCase& one, const BurnInPeer& peer) {
  std::vector<std::string> arguments = {
      "perf",      "sendrecv",
      "--dev",     std::to_string(one.device),
      "--memory",  one.gpu ? fmt::format("cuda:{}", one.cuda_number.value_or(0)) : "host",
      "-b",        "8",
      "-e",        kPerfBytes,
      "-f",        kPerfFactor,
      "--timeout", std::to_string(kBurnInPatienceSeconds),
      "--json",    "-"};
  if (peer.is_local) return arguments;
  arguments.insert(arguments.end(), {"--root", fmt::format("{}:{}", peer.address, peer.port + 1),
                                     "--rank", std::to_string(peer.rank)});
  return arguments;
}

Result<BurnInMeasurement> parse_perf_result(const BurnInCase& one, const std::string& json) {
  try {
    const auto report = nlohmann::json::parse(json);
    const std::string name =
        report.at("devices").at(static_cast<size_t>(one.device)).at("name").get<std::string>();
    if (name.substr(0, name.find(':')) != one.hca) {
      return fail(Code::kInternal, fmt::format("device {} of the plugin is {} and not {}",
                                               one.device, name, one.hca));
    }
    // Rank 0 is this machine's. "cuda:0 (0000:1A:00.0)"
    const auto memory = report.at("ranks").at(0).at("memory").get<std::string>();
    if (one.gpu && !is_memory_of(memory, one.gpu_address)) {
      return fail(Code::kInternal, fmt::format("the memory was that of {} and not of the GPU {}",
                                               memory, one.gpu_address));
    }
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

Result<BurnInMeasurement> measure_by_perf(const BurnInCase& one, const BurnInPeer& peer,
                                          const std::function<bool()>& other_ended) {
  // In the same environment CUDA counts the GPUs as it did for the doctor.
  auto child =
      ChildProcess::start({.program = "/proc/self/exe", .arguments = perf_arguments(one, peer)});
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
  std::string errors = perf_errors(child->errors());
  if (errors.empty()) errors = "nccl-gdr perf " + child->how_it_ended();
  if (status == kExitFailed) return fail(Code::kRemote, "the transfer failed: " + errors);
  return fail(Code::kSystem, errors);
}

}  // namespace gdr::tools::doctor
