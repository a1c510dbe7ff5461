#include "tools/topo/labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "topology/cpu_mask.h"

namespace gdr::topology {
namespace {

// Bytes of the well-formed character at the start of text (Unicode, table 3-7); 0: none is there.
size_t utf8_length(std::string_view text) {
  auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  size_t length = byte(0) < 0xc2 ? 0 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
  if (length == 0 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  bool surrogate = byte(0) == 0xed && byte(1) >= 0xa0;
  bool too_great = byte(0) == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_great ? 0 : length;
}

bool is_printable(std::string_view character) {
  unsigned char first = character[0];
  unsigned char second = character.size() > 1 ? character[1] : 0;
  if (first == 0xc2) return second >= 0xa0;  // C1 controls
  if (first == 0xef && second == 0xbf) return static_cast<unsigned char>(character[2]) < 0xbe;
  return first >= 0x20 && first != 0x7f;
}

int links_to(const Gpu& from, NvLink::To to, const Bdf* gpu) {
  int count = 0;
  for (const NvLink& link : from.nvlinks) {
    if (link.to == to && (gpu == nullptr || link.gpu == *gpu)) count += link.count;
  }
  return count;
}

std::string nvlink_text(const Gpu& a, const Gpu& b) {
  int count =
      std::max(links_to(a, NvLink::To::kGpu, &b.bdf), links_to(b, NvLink::To::kGpu, &a.bdf));
  if (count <= 0) {
    count = std::min(links_to(a, NvLink::To::kSwitch, nullptr),
                     links_to(b, NvLink::To::kSwitch, nullptr));
  }
  return count > 0 ? fmt::format("NV{}", count) : to_string(PathClass::kNvl);
}

}  // namespace

std::string clean_text(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    size_t length = utf8_length(text);
    bool good = length > 0 && is_printable(text.substr(0, length));
    if (length == 0) length = 1;
    clean += good ? text.substr(0, length) : std::string_view("\xef\xbf\xbd");
    text.remove_prefix(length);
  }
  return clean;
}

std::string speed_text(int mbps) {
  return mbps > 0 ? fmt::format("{:g} Gb/s", mbps / 1000.0) : "unknown";
}

const char* state_text(Port::State state) {
  switch (state) {
    case Port::State::kUnknown:
      return "unknown";
    case Port::State::kActive:
      return "active";
    case Port::State::kDown:
      return "down";
  }
  return "unknown";
}

std::string pci_link_text(const PciLink& link) {
  std::string text = link.gt_per_s > 0 ? fmt::format("{:g} GT/s", link.gt_per_s) : "";
  if (link.width > 0) text += fmt::format("{}x{}", text.empty() ? "" : " ", link.width);
  return text;
}

std::string cpu_list(std::string_view mask) {
  auto parsed = cpus_in(mask);
  if (!parsed) return "N/A";
  const std::vector<int>& cpus = *parsed;
  std::string list;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!list.empty()) list += ',';
    list +=
        end == i + 1 ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[end - 1]);
    i = end;
  }
  return list.empty() ? "N/A" : list;
}

std::string numa_text(const Machine& machine, const Attachment& at) {
  if (at.numa < 0 || machine.numa_nodes[at.numa].id < 0) return "N/A";
  return std::to_string(machine.numa_nodes[at.numa].id);
}

std::string address_text(const Hca& hca) { return hca.bdf ? hca.bdf->to_string() : "N/A"; }

std::string host_bridge_text(const Machine& machine, int host_bridge) {
  if (host_bridge < 0) return "";
  const HostBridge& bridge = machine.host_bridges[host_bridge];
  return fmt::format("{:04x}:{:02x}", bridge.domain, bridge.bus);
}

std::string gpu_gpu_text(const RailDecision& view, size_t a, size_t b) {
  const Gpu& from = view.machine.gpus[a];
  const Gpu& to = view.machine.gpus[b];
  if (a == b) return "X";
  PathClass path = view.paths.gpu_gpu(a, b);
  if (path == PathClass::kNvl) return nvlink_text(from, to);
  return display_name(path, from.at, to.at);
}

std::string gpu_hca_text(const RailDecision& view, size_t gpu, size_t hca) {
  return display_name(view.paths.gpu_hca(gpu, hca), view.machine.gpus[gpu].at,
                      view.machine.hcas[hca].at);
}

std::string hca_hca_text(const RailDecision& view, size_t a, size_t b) {
  if (a == b) return "X";
  return display_name(view.paths.hca_hca(a, b), view.machine.hcas[a].at, view.machine.hcas[b].at);
}

std::vector<size_t> gpus_of_rail(const RailPlan& plan, size_t rail) {
  std::vector<size_t> gpus;
  for (size_t i = 0; i < plan.gpus.size(); ++i) {
    const std::vector<int>& rails = plan.gpus[i].rails;
    if (std::find(rails.begin(), rails.end(), static_cast<int>(rail)) != rails.end()) {
      gpus.push_back(i);
    }
  }
  return gpus;
}

Verdicts verdicts_of(const RailDecision& view, size_t gpu, size_t hca) {
  return gdr_verdicts(view.machine, view.paths, view.policy, gpu, hca);
}

}  // namespace gdr::topology
