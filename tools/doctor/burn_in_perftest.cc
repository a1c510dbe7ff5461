#include "tools/doctor/burn_in_perftest.h"

#include <fmt/format.h>

#include <algorithm>

#include "drivers/verbs/handles.h"
#include "drivers/verbs/verbs_api.h"
#include "plugin/config/load.h"
#include "tools/doctor/burn_in_child.h"
#include "tools/doctor/host.h"
#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

constexpr auto kPerftestQuestionTime = std::chrono::seconds(10);
constexpr int kPerftestLatencyMessages = 1000;
constexpr int kPerftestProbeMessages = 10;

// Returns what a program prints for an option.
Result<std::string> answer_of_perftest(const std::string& program, const char* option) {
  auto child = ChildProcess::start({program, {option}, {"LC_ALL=C"}});
  if (!child) return forward_error(child);
  if (!child->wait_until(BurnInClock::now() + kPerftestQuestionTime)) {
    return fail(Code::kUnsupported, program + " " + option + " does not end");
  }
  // The status of --help and --version is not 0 in every release. What the loader reports of
  // missing libraries has status 127.
  if (child->exit_status() == 127 || child->exit_status() < 0) {
    return fail(Code::kUnsupported, fmt::format("{} {}: {}", program, child->how_it_ended(),
                                                topo::clean_text(child->errors())));
  }
  return child->output() + child->errors();
}

// "Version: 6.06"
std::string version_in_perftest(const std::string& text) {
  constexpr std::string_view kLabel = "Version:";
  const size_t at = text.find(kLabel);
  if (at == std::string::npos) return "";
  const size_t begin = text.find_first_not_of(" \t", at + kLabel.size());
  const size_t end = text.find_first_not_of("0123456789.", std::min(begin, text.size()));
  return begin == std::string::npos ? "" : text.substr(begin, end - begin);
}

// Whether a help text lists an option: with a value, or without one.
bool has_perftest_option(const std::string& help, const std::string& option) {
  for (size_t at = help.find(option); at != std::string::npos; at = help.find(option, at + 1)) {
    const size_t end = at + option.size();
    if (end == help.size() || std::string_view("= \t\n").find(help[end]) != std::string::npos) {
      return true;
    }
  }
  return false;
}

const RdmaPort* port_of_end(const Host& host, const BurnInEnd& one) {
  for (const RdmaHca& hca : host.ports.hcas) {
    if (hca.name != one.hca) continue;
    for (const RdmaPort& port : hca.ports) {
      if (port.number == one.port) return &port;
    }
  }
  return nullptr;
}

// Whether packets of an InfiniBand port need a GRH (IBV_QPF_GRH_REQUIRED), which verbs alone shows.
bool asks_for_grh(const Host& host, const config::Options& options, const BurnInEnd& one) {
  if (!host.is_live) return false;
  const auto api = verbs::Api::load(options.verbs_library);
  if (!api) return false;
  int count = 0;
  ibv_device** devices = (*api)->get_device_list(&count);
  bool asks = false;
  for (int i = 0; devices != nullptr && i < count; ++i) {
    if (one.hca != (*api)->get_device_name(devices[i])) continue;
    const verbs::UniqueContext context((*api)->open_device(devices[i]), {api->get()});
    ibv_port_attr attr{};
    const auto number = static_cast<uint8_t>(one.port);
    asks = context != nullptr && (*api)->query_port(context.get(), number, &attr) == 0 &&
           (attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
  }
  if (devices != nullptr) (*api)->free_device_list(devices);
  return asks;
}

}  // namespace

Result<Perftest> find_perftest(const std::string& path) {
  Perftest found;
  found.write_bw = program_in_path("ib_write_bw", path);
  found.write_lat = program_in_path("ib_write_lat", path);
  found.send_lat = program_in_path("ib_send_lat", path);
  if (found.write_bw.empty() || found.write_lat.empty()) {
    return fail(Code::kUnsupported,
                fmt::format("{} is not in PATH. Fix: install the package perftest",
                            found.write_bw.empty() ? "ib_write_bw" : "ib_write_lat"));
  }
  const Result<std::string> version = answer_of_perftest(found.write_bw, "--version");
  if (!version) return fail(version.error().code, version.error().text);
  Result<std::string> help = answer_of_perftest(found.write_bw, "--help");
  if (!help) return forward_error(help);
  found.version = version_in_perftest(*version);
  found.has_cuda = has_perftest_option(*help, "--use_cuda");
  found.has_cuda_bus_id = has_perftest_option(*help, "--use_cuda_bus_id");
  found.has_cuda_dmabuf = has_perftest_option(*help, "--use_cuda_dmabuf");
  return found;
}

const char* name_of(PerftestProgram program) {
  switch (program) {
    case PerftestProgram::kWriteBandwidth:
      return "ib_write_bw";
    case PerftestProgram::kWriteLatency:
    case PerftestProgram::kProbe:
      return "ib_write_lat";
    case PerftestProgram::kSendLatency:
      return "ib_send_lat";
  }
  return "";
}

const std::string& path_of(const Perftest& perftest, PerftestProgram program) {
  if (program == PerftestProgram::kWriteBandwidth) return perftest.write_bw;
  return program == PerftestProgram::kSendLatency ? perftest.send_lat : perftest.write_lat;
}

Result<PerftestFabric> perftest_fabric(const Host& host, const BurnInEnd& one, bool by_gid) {
  const config::Options options = config::load(host.environment, nullptr);
  PerftestFabric fabric;
  fabric.service_level = options.service_level;
  fabric.traffic_class = options.traffic_class;
  fabric.pkey_index = options.pkey_index;
  const auto registration = host.gpus.hcas.find(one.hca);
  fabric.uses_dmabuf = registration != host.gpus.hcas.end() && registration->second.dmabuf;
  const RdmaPort* port = port_of_end(host, one);
  if (port == nullptr) return fabric;
  if (!port->is_ethernet() && !by_gid && !asks_for_grh(host, options, one)) return fabric;
  std::vector<transport::GidEntry> table;
  for (const RdmaGid& gid : port->gids) table.push_back(gid.entry);
  const transport::GidPreference preference{options.gid_index, options.roce_version,
                                            options.address_family, options.address_range,
                                            options.routable_gid_index};
  const auto chosen = port->is_ethernet() ? transport::select_gid(table, preference)
                                          : transport::select_infiniband_gid(table, preference);
  if (!chosen) return fail(Code::kSystem, chosen.error().text);
  fabric.gid_index = chosen->index;
  return fabric;
}

std::vector<std::string> perftest_arguments(PerftestProgram program, const Perftest& perftest,
                                            const BurnInEnd& one, const PerftestFabric& fabric,
                                            int tcp_port) {
  const bool is_bandwidth = program == PerftestProgram::kWriteBandwidth;
  // -F: no error where the CPU's frequency is not the nominal one.
  std::vector<std::string> arguments = {"-F", "--ib-dev=" + one.hca,
                                        fmt::format("--ib-port={}", one.port),
                                        fmt::format("--port={}", tcp_port)};
  const auto add = [&](const char* option, auto value) {
    arguments.push_back(fmt::format("{}={}", option, value));
  };
  add("--size", is_bandwidth ? kPerftestBandwidthBytes : kPerftestLatencyBytes);
  if (is_bandwidth) {
    // The first and the last quarter do not count (its --margin).
    add("--duration", 2 * kBurnInSeconds);
    arguments.push_back("--report_gbits");
  } else {
    add("--iters",
        program == PerftestProgram::kProbe ? kPerftestProbeMessages : kPerftestLatencyMessages);
  }
  if (fabric.gid_index) add("--gid-index", *fabric.gid_index);
  if (fabric.service_level >= 0) add("--sl", fabric.service_level);
  if (fabric.traffic_class >= 0) add("--tclass", fabric.traffic_class);
  if (fabric.pkey_index > 0) add("--pkey_index", fabric.pkey_index);
  if (!one.gpu) return arguments;
  if (perftest.has_cuda_bus_id && !one.gpu_address.empty()) {
    add("--use_cuda_bus_id", one.gpu_address);
  } else {
    add("--use_cuda", one.cuda_number.value_or(0));
  }
  if (fabric.uses_dmabuf && perftest.has_cuda_dmabuf) arguments.push_back("--use_cuda_dmabuf");
  return arguments;
}

}  // namespace gdr::tools::doctor
