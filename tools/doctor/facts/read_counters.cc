// The counters of the machine, and those of an earlier report.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "tools/doctor/facts/counters.h"
#include "tools/doctor/facts/host.h"
#include "tools/inspection/labels.h"

namespace gdr::tools::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PortCounters, device, port, guid, values)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CounterReading, host, boot_id, time, uptime, ports)

namespace {

namespace fs = std::filesystem;

constexpr std::array kCounterFolders{"counters", "hw_counters"};

// In lower case, as parts of a name.
constexpr auto kWordsOfErrors = std::to_array<std::string_view>(
    {"err",      "timeout", "retr",      "nak",       "drop",     "discard", "exceed",  "dup",
     "out_of",   "oos",     "seq",       "downed",    "overrun",  "oflow",   "recover", "integrity",
     "invalid",  "icrc",    "bad_",      "missing",   "mismatch", "no_perm", "noroute", "no_route",
     "truncate", "unsup",   "unaligned", "violation", "lost",     "unresp",  "impaired"});
constexpr auto kWordsOfOthers =
    std::to_array<std::string_view>({"flush", "vl15", "deferred", "lifespan"});

template <size_t kSize>
bool has_word(std::string_view name, const std::array<std::string_view, kSize>& words) {
  return std::ranges::any_of(
      words, [name](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

fs::path counter_folder(const std::string& ibdev_path, int port, const char* name) {
  return fs::path(ibdev_path) / "ports" / std::to_string(port) / name;
}

std::optional<uint64_t> read_counter(const fs::path& path) {
  std::string text;
  std::ifstream file(path);
  if (!std::getline(file, text)) return {};
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

// Returns the number that a text begins with; 0 where it is none.
uint64_t number_of(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

// A copy of a machine shows when it was made: the time of the boot, and how long ago that was.
uint64_t time_of(const Host& host, uint64_t uptime) {
  if (host.is_live) return static_cast<uint64_t>(std::time(nullptr));
  const uint64_t boot = number_of(host.line_of("/proc/stat", "btime").value_or(""));
  return boot > 0 && uptime > 0 ? boot + uptime : 0;
}

// Adds the totals of PCI Express's error reporting
// (Documentation/ABI/testing/sysfs-bus-pci-devices- aer_stats of Linux) at both ends of the HCA's
// link, since the end that receives counts: the function's own, and those of the switch or root
// port above it.
void add_link_errors(const Host& host, const std::string& pci, HardwareCounters* values) {
  constexpr std::pair<const char*, const char*> kEnds[] = {{"", ""}, {"/..", "upstream_"}};
  constexpr std::pair<const char*, const char*> kTotals[] = {
      {"aer_dev_correctable", "TOTAL_ERR_COR "},
      {"aer_dev_nonfatal", "TOTAL_ERR_NONFATAL "},
      {"aer_dev_fatal", "TOTAL_ERR_FATAL "}};
  for (const auto& [above, prefix] : kEnds) {
    for (const auto& [file, total] : kTotals) {
      const auto value = host.line_of("/sys/bus/pci/devices/" + pci + above + "/" + file, total);
      if (value.has_value()) (*values)[std::string(prefix) + file] = number_of(*value);
    }
  }
}

PortCounters counters_of(const Host& host, const RdmaHca& hca, const RdmaPort& port) {
  PortCounters counters{topo::clean_text(hca.name), port.number, hca.guid,
                        read_hardware_counters(hca.folder.string(), port.number)};
  if (!hca.pci.empty()) add_link_errors(host, hca.pci, &counters.values);
  if (!port.is_ethernet() || port.netdevs.empty()) return counters;
  const std::string changes =
      host.line("/sys/class/net/" + port.netdevs.front() + "/carrier_changes");
  if (!changes.empty()) counters.values["carrier_changes"] = number_of(changes);
  return counters;
}

// Containers of one machine have names of their own, and the boot of the machine.
std::string why_not_earlier(const CounterReading& then, const CounterReading& now) {
  if (then.boot_id.empty() || then.boot_id != now.boot_id) {
    if (then.host != now.host) {
      return fmt::format("is of the machine \"{}\", and this is \"{}\"", then.host, now.host);
    }
    const auto is_new = [&](const PortCounters& one) { return same_port(then, one) == nullptr; };
    if (!now.ports.empty() && std::all_of(now.ports.begin(), now.ports.end(), is_new)) {
      return "has none of this machine's HCAs, by name and GUID";
    }
  }
  if (now.time == 0) return "cannot be compared: copy /proc/stat and /proc/uptime, too";
  return then.time < now.time ? "" : "is not older than the counters of the machine";
}

Result<CounterReading> parse_counters(const std::string& text) {
  try {
    auto reading = nlohmann::json::parse(text).at("counters").get<CounterReading>();
    if (reading.time > 0) return reading;
    return fail(Code::kInvalidArgument, "does not state the time of its counters");
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kInvalidArgument,
                fmt::format("is not a report with counters: {}. Fix: make one by nccl-gdr doctor "
                            "--json",
                            json_error(error)));
  }
}

}  // namespace

HardwareCounters read_hardware_counters(const std::string& ibdev_path, int port) {
  HardwareCounters counters;
  for (const char* name : kCounterFolders) {
    std::error_code error;
    fs::directory_iterator file(counter_folder(ibdev_path, port, name), error);
    for (; !error && file != fs::directory_iterator(); file.increment(error)) {
      const std::string counter = file->path().filename();
      if (!is_symptom(counter)) continue;
      if (const auto value = read_counter(file->path())) counters.emplace(counter, *value);
    }
  }
  return counters;
}

bool is_symptom(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return has_word(lower, kWordsOfErrors) && !has_word(lower, kWordsOfOthers);
}

CounterReading read_counters(const Host& host) {
  CounterReading reading;
  reading.host = topo::clean_text(host.line("/proc/sys/kernel/hostname"));
  reading.boot_id = topo::clean_text(host.line("/proc/sys/kernel/random/boot_id"));
  reading.uptime = number_of(host.line("/proc/uptime"));
  reading.time = time_of(host, reading.uptime);
  for (const RdmaHca& hca : host.ports.hcas) {
    for (const RdmaPort& port : hca.ports) reading.ports.push_back(counters_of(host, hca, port));
  }
  return reading;
}

void watch_counters(Host* host) {
  const std::vector<PortCounters>& ports = host->counters.ports;
  const auto has_some = [](const PortCounters& one) { return !one.values.empty(); };
  if (!host->is_live || std::none_of(ports.begin(), ports.end(), has_some)) return;
  std::this_thread::sleep_for(std::chrono::seconds(1));
  host->earlier = std::exchange(host->counters, read_counters(*host));
  host->earlier->time = host->counters.time - 1;  // whatever the clock does meanwhile
}

const PortCounters* same_port(const CounterReading& reading, const PortCounters& port) {
  const auto is_it = [&](const PortCounters& one) {
    return one.device == port.device && one.port == port.port &&
           (one.guid == port.guid || one.guid.empty() || port.guid.empty());
  };
  const auto found = std::find_if(reading.ports.begin(), reading.ports.end(), is_it);
  return found == reading.ports.end() ? nullptr : &*found;
}

nlohmann::json json_of(const CounterReading& reading) { return reading; }

Result<CounterReading> read_earlier_counters(const std::string& file, const CounterReading& now) {
  Result<std::string> text = text_of_file(file);
  Result<CounterReading> then = text ? parse_counters(*text) : forward_error(text);
  const std::string error = then ? why_not_earlier(*then, now) : then.error().text;
  if (then && then->boot_id != now.boot_id) then->ports.clear();
  if (error.empty()) return then;
  return fail(Code::kInvalidArgument, topo::clean_text("\"" + file + "\" " + error));
}

}  // namespace gdr::tools::doctor
