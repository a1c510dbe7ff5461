#include "tools/doctor/burn_in_perftest_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

// Splits a header. A column's name has a unit in brackets, up to which it may have blanks, or
// begins with '#': "#bytes", "BW average[Gb/sec]", "99.9% percentile[usec]".
std::vector<std::string> perftest_columns(std::string_view line) {
  std::vector<std::string> columns;
  for (size_t at = line.find_first_not_of(" \t\r"); at != std::string_view::npos;
       at = line.find_first_not_of(" \t\r", at)) {
    const bool is_plain = line[at] == '#';
    size_t end = is_plain ? line.find_first_of(" \t\r", at) : line.find(']', at);
    if (!is_plain && end != std::string_view::npos) ++end;
    end = std::min(end, line.size());
    columns.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return columns;
}

// In the notation of C, whatever the locale is: "119.79", "1.2e+02", "inf".
std::optional<double> perftest_number(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return {};
  return value;
}

struct PerftestCell {
  std::string column;  // "BW average[Gb/sec]"
  double value = 0;
};

// Returns what the row of that size has in the first column whose name begins with `name`. Other
// lines may stand before the table, and between its header and its row: warnings about the CPU's
// frequency.
std::optional<PerftestCell> perftest_cell(const std::string& output, uint64_t bytes,
                                          const std::string& name) {
  std::istringstream lines(output);
  std::vector<std::string> columns;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) continue;
    if (words[0] == "#bytes") columns = perftest_columns(line);
    const auto is_named = [&](const std::string& one) { return one.starts_with(name); };
    const auto column = std::find_if(columns.begin(), columns.end(), is_named);
    const size_t index = static_cast<size_t>(column - columns.begin());
    if (column == columns.end() || words[0] != std::to_string(bytes)) continue;
    if (index >= words.size()) continue;
    if (const auto value = perftest_number(words[index])) return PerftestCell{*column, *value};
  }
  return {};
}

Result<double> usable_cell(const std::optional<PerftestCell>& cell, uint64_t bytes) {
  if (!cell) {
    return fail(Code::kSystem,
                fmt::format("no result for messages of {} bytes was printed", bytes));
  }
  // perftest divides by the frequency that it measures, which it does not find on a busy CPU.
  if (!std::isfinite(cell->value) || cell->value <= 0) {
    return fail(Code::kSystem,
                fmt::format("the result is {} in the column {}. Fix: run it again while the CPUs "
                            "are idle, or use --burn-in-with perf",
                            cell->value, topo::clean_text(cell->column)));
  }
  return cell->value;
}

struct PerftestFix {
  std::string_view sign;  // a part of what is printed
  Code code;
  const char* fix;
};

constexpr char kFixOfVerbs[] =
    "perftest uses the libibverbs.so.1 of the loader: nccl-gdr doctor --check "
    "rdma-devices,verbs-library";
constexpr char kFixOfCuda[] = "nccl-gdr doctor --check nvidia-driver,cuda-driver";
constexpr char kFixOfRegistration[] =
    "memory of the host: raise the limit of locked memory, nccl-gdr doctor --check memory-lock; "
    "of a GPU: nccl-gdr doctor --check memory-registration";
constexpr char kFixOfRoute[] =
    "let each port reach the GID or LID of the other one: nccl-gdr doctor --check "
    "roce-gids,ip-subnets,subnet-manager on every machine that took part";
constexpr char kFixOfRelease[] = "install perftest 4.5 or later, or use --burn-in-with perf";

// The first one counts: what causes other errors comes first.
constexpr PerftestFix kPerftestFixes[] = {
    {"Couldn't listen to port", Code::kSystem,
     "another program has the TCP port: give --burn-in another one, ADDRESS:PORT"},
    {"Couldn't connect to", Code::kSystem,
     "let the TCP port through the firewall, the one after that of --burn-in"},
    {"state is", Code::kSystem, "nccl-gdr doctor --check port-state"},
    {"IB device ", Code::kSystem, kFixOfVerbs},
    {"Unable to find the Infiniband/RoCE device", Code::kSystem, kFixOfVerbs},
    {"cuInit", Code::kSystem, kFixOfCuda},
    {"GPU context", Code::kSystem, kFixOfCuda},
    {"DMA-BUF is not supported", Code::kSystem, "nccl-gdr doctor --check memory-registration"},
    {"Couldn't allocate MR", Code::kSystem, kFixOfRegistration},
    {"failed to create mr", Code::kSystem, kFixOfRegistration},
    {"Couldn't create IB resources", Code::kSystem,
     "raise the limit of locked memory: nccl-gdr doctor --check memory-lock"},
    {"Couldn't get context", Code::kSystem, "nccl-gdr doctor --check device-files,rdma-devices"},
    {"Incompatibility issue with GID", Code::kSystem,
     "use GIDs of one RoCE version and address family: nccl-gdr doctor --check roce-gids on every "
     "machine that took part"},
    {"Failed to modify QP", Code::kRemote, kFixOfRoute},
    {"Unable to Connect the HCA", Code::kRemote, kFixOfRoute},
    // IBV_WC_RETRY_EXC_ERR and IBV_WC_RNR_RETRY_EXC_ERR
    {"Failed status 12", Code::kRemote,
     "the receiving port did not acknowledge: look at cables, MTU and routes by nccl-gdr doctor on "
     "every machine that took part; on a fabric that asks for GRHs, use --burn-in-with perf"},
    {"Completion with error", Code::kRemote,
     "run nccl-gdr conformance, and nccl-gdr doctor on every machine that took part"},
    {"not compatible with versions", Code::kSystem,
     "install the same release of perftest on both machines, or use --burn-in-with perf"},
    {"nrecognized option", Code::kSystem, kFixOfRelease},
    {"nvalid option", Code::kSystem, kFixOfRelease},
};

constexpr size_t kMostPerftestLines = 4;

bool begins_with_any(std::string_view line, std::initializer_list<std::string_view> begins) {
  return std::any_of(begins.begin(), begins.end(),
                     [&](std::string_view one) { return line.starts_with(one); });
}

// Frames, and warnings that do no harm.
bool is_harmless_line(std::string_view line) {
  return begins_with_any(line, {"----", "Conflicting CPU frequency", "Warning", "WARNING",
                                "Requested mtu", "Changing to this MTU", "scnt=", "rcnt="});
}

// What an end prints because the other one has left.
bool is_consequence(std::string_view line) {
  return begins_with_any(line, {"ethernet_read_keys", "Couldn't read remote address",
                                "Unable to read", "Unable to write", "Failed to exchange data",
                                "Failed to close connection", "Failed to exchange"});
}

// The first lines, joined; consequences only where there is nothing else.
std::string joined_perftest_lines(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> causes, consequences;
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t\r*");
    if (begin == std::string::npos) continue;
    const std::string rest = line.substr(begin, line.find_last_not_of(" \t\r*") + 1 - begin);
    if (is_harmless_line(rest)) continue;
    (is_consequence(rest) ? consequences : causes).push_back(rest);
  }
  std::vector<std::string>& kept = causes.empty() ? consequences : causes;
  kept.resize(std::min(kept.size(), kMostPerftestLines));
  return topo::clean_text(fmt::format("{}", fmt::join(kept, "; ")));
}

// What stands before an error of a program that prints errors to standard output, as those of CUDA.
std::string last_perftest_lines(const std::string& output) {
  const size_t most = 400;
  const size_t begin = output.size() > most ? output.find('\n', output.size() - most) : 0;
  return joined_perftest_lines(output.substr(std::min(begin, output.size())));
}

}  // namespace

Result<double> perftest_gbits(const std::string& output, uint64_t bytes) {
  const auto cell = perftest_cell(output, bytes, "BW average[");
  Result<double> value = usable_cell(cell, bytes);
  // "MB/sec" and, in later releases, "MiB/sec" are both 2^20 bytes.
  const bool is_gbits = cell && cell->column.find("[Gb/sec]") != std::string::npos;
  if (value && !is_gbits) *value *= 8 * (1 << 20) / 1e9;
  return value;
}

Result<double> perftest_latency_us(const std::string& output, uint64_t bytes) {
  return usable_cell(perftest_cell(output, bytes, "t_typical["), bytes);
}

Error perftest_error(const std::string& how, const std::string& output, const std::string& errors) {
  std::string text = joined_perftest_lines(errors);
  if (text.empty()) text = last_perftest_lines(output);
  const std::string all = errors + output;
  const std::string what = text.empty() ? how + " without an error" : how + ": " + text;
  for (const PerftestFix& one : kPerftestFixes) {
    if (all.find(one.sign) == std::string::npos) continue;
    return {one.code, what + ". Fix: " + one.fix};
  }
  return {Code::kSystem, what + ". Fix: " + kPerftestGeneralFix};
}

}  // namespace gdr::tools::doctor
