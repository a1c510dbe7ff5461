#include "tools/inspection/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "topology/cpu_mask.h"

namespace gdr::tools::topo {
namespace {

using topology::nccl::NetDevicesPolicy;
using topology::nccl::Prediction;
using topology::nccl::Route;
using topology::nccl::Settings;

// Returns the length in bytes of the well-formed UTF-8 character at the start of the text (The
// Unicode Standard, table 3-7), or 0 where there is none.
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

// Returns the number of a GPU's NVLinks (of AMD: xGMI links) to a kind of target, or to one GPU; 0
// where it is unknown, and nothing where there are none.
std::optional<int> links_to(const Gpu& from, NvLink::To to, const Bdf* gpu = nullptr) {
  std::optional<int> count;
  for (const NvLink& link : from.nvlinks) {
    if (link.to == to && (gpu == nullptr || link.gpu == *gpu)) {
      count = count.value_or(0) + link.count;
    }
  }
  return count;
}

std::string nvlink_text(const Gpu& a, const Gpu& b) {
  // A source may state a link at one end only.
  std::optional<int> count =
      std::max(links_to(a, NvLink::To::kGpu, &b.bdf), links_to(b, NvLink::To::kGpu, &a.bdf));
  if (count.value_or(0) == 0) {
    count = std::min(links_to(a, NvLink::To::kSwitch), links_to(b, NvLink::To::kSwitch));
  }
  return count.value_or(0) > 0 ? fmt::format("NV{}", *count) : to_string(PathClass::kNvl);
}

// Whether the vendor, 0 for unknown, makes GPUs that are linked to each other beside PCIe.
bool makes_gpu_links(uint16_t vendor) {
  constexpr uint16_t kNvidia = 0x10de;
  constexpr uint16_t kAmd = 0x1002;
  return vendor == kNvidia || vendor == kAmd || vendor == 0;
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

std::string shell_word(const std::string& text) {
  std::string quoted = "'";
  for (char c : clean_text(text)) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string gpu_label(size_t gpu) { return "GPU" + std::to_string(gpu); }

std::vector<std::string> gpu_labels(const std::vector<size_t>& gpus) {
  std::vector<std::string> labels;
  for (size_t gpu : gpus) labels.push_back(gpu_label(gpu));
  return labels;
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
  auto parsed = topology::cpus_in(mask);
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

bool gpu_links_known(const Machine& machine, size_t gpu) {
  const Gpu& one = machine.gpus[gpu];
  return machine.gpu_links_known || !one.nvlinks.empty() || one.c2c_links > 0;
}

bool may_have_unknown_link(const RailDecision& decision, size_t a, size_t b) {
  const Machine& machine = decision.machine;
  if (a == b || gpu_links_known(machine, a) || gpu_links_known(machine, b)) return false;
  const uint16_t vendor = machine.gpus[a].ids.vendor;
  return vendor == machine.gpus[b].ids.vendor && makes_gpu_links(vendor);
}

std::string gpu_gpu_text(const RailDecision& decision, size_t a, size_t b) {
  const Gpu& from = decision.machine.gpus[a];
  const Gpu& to = decision.machine.gpus[b];
  if (a == b) return "X";
  if (may_have_unknown_link(decision, a, b)) return "?";
  PathClass path = decision.paths.gpu_gpu(a, b);
  if (path == PathClass::kNvl) return nvlink_text(from, to);
  return display_name(path, from.at, to.at);
}

std::string gpu_hca_text(const RailDecision& decision, size_t gpu, size_t hca) {
  return display_name(path_between(decision, gpu, hca), decision.machine.gpus[gpu].at,
                      decision.machine.hcas[hca].at);
}

std::string hca_hca_text(const RailDecision& decision, size_t a, size_t b) {
  if (a == b) return "X";
  return display_name(decision.paths.hca_hca(a, b), decision.machine.hcas[a].at,
                      decision.machine.hcas[b].at);
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

std::string rail_numbers(const RailPlan& plan, size_t gpu) {
  std::string text;
  for (const Rail* rail : plan.rails_of(gpu)) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", rail->id);
  }
  return text;
}

std::string choice_text(const RailDecision& decision, size_t gpu) {
  const Prediction& prediction = decision.prediction;
  if (prediction.devices().empty()) return "none";
  std::string text;
  for (size_t device : prediction.devices_of_gpu(gpu)) {
    text += (text.empty() ? "" : ", ") + port_label(decision.machine, prediction.devices()[device]);
    const Route& route = prediction.gpu_to_device(gpu, device);
    if (route.through_gpu >= 0) text += fmt::format(" over GPU{}", route.through_gpu);
  }
  return text.empty() ? "none" : text;
}

std::string policy_text(const NetDevicesPolicy& policy) {
  switch (policy.kind) {
    case NetDevicesPolicy::Kind::kAuto:
      return "AUTO";
    case NetDevicesPolicy::Kind::kAll:
      return "ALL";
    case NetDevicesPolicy::Kind::kMax:
      return fmt::format("MAX:{}", policy.max);
  }
  return "AUTO";
}

std::string release_text(const Settings& settings) {
  std::string text = "NCCL " + settings.release.to_string();
  auto add = [&](const char* name, const std::string& value) {
    text += fmt::format(", {}={}", name, value);
  };
  if (settings.gdr_level) add("NCCL_NET_GDR_LEVEL", to_string(*settings.gdr_level));
  if (settings.gdr_read >= 0) add("NCCL_NET_GDR_READ", std::to_string(settings.gdr_read));
  if (settings.gdr_c2c) add("NCCL_NET_GDR_C2C", *settings.gdr_c2c ? "1" : "0");
  if (settings.gdr_mlopart) add("NCCL_NET_GDR_MLOPART", "1");
  if (settings.pxn_disable) add("NCCL_PXN_DISABLE", "1");
  if (settings.pxn_c2c) add("NCCL_PXN_C2C", *settings.pxn_c2c ? "1" : "0");
  if (settings.p2p_level) add("NCCL_P2P_LEVEL", to_string(*settings.p2p_level));
  if (settings.nvb_disable) add("NCCL_NVB_DISABLE", "1");
  if (settings.net_devices.kind != NetDevicesPolicy::Kind::kAuto) {
    add("NCCL_NETDEVS_POLICY", policy_text(settings.net_devices));
  }
  return text;
}

}  // namespace gdr::tools::topo
