#include "topology/sources/sysfs_rdma.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <vector>

#include "topology/sources/sysfs_files.h"

namespace gdr::topology {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxStackedInterfaces = 8;  // VLAN on macvlan on ...; the limit also ends loops

// Returns the PCI function that `link` leads to, or the nearest one above its target.
std::optional<PciLocation> location_behind(const fs::path& link) {
  std::error_code error;
  fs::path folder = fs::canonical(link, error);
  if (error) return std::nullopt;
  while (folder.has_relative_path()) {
    if (is_pci_function(folder)) {
      return PciLocation{folder.string(), *Bdf::parse(folder.filename().string()),
                         numa_node(folder)};
    }
    folder = folder.parent_path();
  }
  return std::nullopt;
}

// The name comes from a file and must not lead out of the folder of interfaces.
bool is_interface_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Returns the interface that the one in `folder` is stacked on; nothing where there are several, as
// for a bond.
std::optional<std::string> lower_interface(const fs::path& folder) {
  constexpr std::string_view kPrefix = "lower_";
  std::optional<std::string> lower;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.compare(0, kPrefix.size(), kPrefix) != 0) continue;
    if (lower) return std::nullopt;
    lower = name.substr(kPrefix.size());
  }
  return lower;
}

std::optional<PciLocation> location_of_interface(std::string name, const fs::path& sysfs_root) {
  for (int level = 0; level < kMaxStackedInterfaces && is_interface_name(name); ++level) {
    fs::path folder = sysfs_root / "class" / "net" / name;
    if (auto location = location_behind(folder / "device")) return location;
    std::optional<std::string> lower = lower_interface(folder);
    if (!lower) return std::nullopt;
    name = *lower;
  }
  return std::nullopt;
}

int number_of(const std::string& text) {
  int value = 0;
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && value > 0 ? value : 0;
}

Port read_port(const fs::path& folder, int number) {
  Port port;
  port.number = number;
  std::string state = first_line(folder / "state");  // "4: ACTIVE"
  if (!state.empty()) {
    port.state = state.compare(0, 2, "4:") == 0 ? Port::State::kActive : Port::State::kDown;
  }
  port.speed_mbps = rate_mbps(first_line(folder / "rate"));
  std::string layer = first_line(folder / "link_layer");
  if (layer == "InfiniBand") port.link_layer = Port::LinkLayer::kInfiniBand;
  if (layer == "Ethernet") port.link_layer = Port::LinkLayer::kEthernet;
  return port;
}

std::vector<Port> read_ports(const fs::path& ibdev) {
  std::vector<Port> ports;
  std::error_code error;
  for (fs::directory_iterator it(ibdev / "ports", error), end; !error && it != end;
       it.increment(error)) {
    int number = number_of(it->path().filename().string());
    if (number > 0) ports.push_back(read_port(it->path(), number));
  }
  std::sort(ports.begin(), ports.end(),
            [](const Port& a, const Port& b) { return a.number < b.number; });
  if (ports.empty()) ports.emplace_back();
  return ports;
}

// Reads name, GUID and ports; fill_function() sets the rest.
Hca read_hca(const fs::path& ibdev) {
  Hca hca;
  hca.name = ibdev.filename().string();
  hca.guid = parse_guid(first_line(ibdev / "sys_image_guid"));
  if (hca.guid == 0) hca.guid = parse_guid(first_line(ibdev / "node_guid"));
  hca.ports = read_ports(ibdev);
  return hca;
}

}  // namespace

void fill_function(Hca* hca, const PciLocation& location) {
  hca->bdf = location.bdf;
  auto function = pci_function(location.sysfs_path);
  if (!function) return;
  hca->class_code = function->class_code;
  hca->ids = function->ids;
  hca->link = function->link;
  hca->physical_function = function->physical_function;
}

std::optional<PciLocation> pci_location(const fs::path& ibdev_path, const fs::path& sysfs_root) {
  if (ibdev_path.empty()) return std::nullopt;
  if (auto location = location_behind(ibdev_path / "device")) return location;
  return location_of_interface(first_line(ibdev_path / "parent"), sysfs_root);
}

std::optional<PciLocation> pci_location_of_function(const fs::path& folder) {
  return location_behind(folder);
}

uint64_t parse_guid(const std::string& text) {
  if (text.size() != 19) return 0;
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    bool separator = i % 5 == 4;
    if (separator != (text[i] == ':')) return 0;
    if (!separator) digits += text[i];
  }
  uint64_t guid = 0;
  auto end = digits.data() + digits.size();
  auto [stop, error] = std::from_chars(digits.data(), end, guid, 16);
  return error == std::errc() && stop == end ? guid : 0;
}

Attachment attach_without_pci(const Machine& machine) {
  auto first_gpu = std::min_element(machine.gpus.begin(), machine.gpus.end(),
                                    [](const Gpu& a, const Gpu& b) { return a.bdf < b.bdf; });
  if (first_gpu != machine.gpus.end()) return Attachment{-1, first_gpu->at.numa, -1};
  const auto& nodes = machine.numa_nodes;
  // NUMA node -1 (unknown) sorts last.
  auto order = [](const NumaNode& a, const NumaNode& b) {
    return static_cast<unsigned>(a.id) < static_cast<unsigned>(b.id);
  };
  auto first = std::min_element(nodes.begin(), nodes.end(), order);
  return Attachment{-1, nodes.empty() ? -1 : static_cast<int>(first - nodes.begin()), -1};
}

void add_rdma_devices(Machine* machine, const fs::path& sysfs_root,
                      const std::function<PciPosition(const PciLocation&)>& position_of) {
  std::vector<Hca> without_pci;
  std::error_code error;
  for (fs::directory_iterator it(sysfs_root / "class" / "infiniband", error), end;
       !error && it != end; it.increment(error)) {
    Hca hca = read_hca(it->path());
    auto location = pci_location(it->path(), sysfs_root);
    if (!location) {
      without_pci.push_back(std::move(hca));
      continue;
    }
    fill_function(&hca, *location);
    hca.at = attach(machine, position_of(*location));
    machine->hcas.push_back(std::move(hca));
  }
  for (Hca& hca : without_pci) {
    hca.at = attach_without_pci(*machine);
    machine->hcas.push_back(std::move(hca));
  }
}

}  // namespace gdr::topology
