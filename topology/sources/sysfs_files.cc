#include "topology/sources/sysfs_files.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <set>
#include <system_error>

namespace gdr::topology {
namespace {

namespace fs = std::filesystem;

constexpr uint16_t kBroadcomVendor = 0x1000;

// Reads "0x15b3"; returns 0 where the file has no such number.
uint32_t hex_file(const fs::path& file) {
  std::string text = first_line(file);
  std::string_view digits = text;
  if (digits.substr(0, 2) == "0x") digits.remove_prefix(2);
  uint32_t value = 0;
  auto end = digits.data() + digits.size();
  auto [stop, error] = std::from_chars(digits.data(), end, value, 16);
  return error == std::errc() && stop == end ? value : 0;
}

PciIds pci_ids(const fs::path& folder) {
  auto id = [&](const char* file) { return static_cast<uint16_t>(hex_file(folder / file)); };
  return PciIds{id("vendor"), id("device"), id("subsystem_vendor"), id("subsystem_device")};
}

double speed_of(const fs::path& folder) { return gt_per_s(first_line(folder / "max_link_speed")); }

int width_of(const fs::path& folder) {
  return std::atoi(first_line(folder / "max_link_width").c_str());
}

// Returns the lesser of what the function and its slot support, as NCCL has it
// (ncclTopoGetXmlFromSys in src/graph/xml.cc). A speed that one of them does not state does not
// limit; a missing width does, so that it is unknown for a function on a root bus.
PciLink pci_link(const fs::path& function) {
  std::error_code broken;
  fs::path folder = fs::canonical(function, broken);  // the slot is beside the target of a link
  if (broken) folder = function;
  const double speed = speed_of(folder), slot_speed = speed_of(folder.parent_path());
  const int width = std::min(width_of(folder), width_of(folder.parent_path()));
  const bool both = speed > 0 && slot_speed > 0;
  return PciLink{both ? std::min(speed, slot_speed) : std::max(speed, slot_speed),
                 std::max(width, 0)};
}

// Parses "pci0000:3a", the folder of a host bridge, named by its root bus.
std::optional<HostBridge> parse_host_bridge(const std::string& name) {
  if (name.compare(0, 3, "pci") != 0) return std::nullopt;
  auto first = Bdf::parse(name.substr(3) + ":00.0");
  if (!first) return std::nullopt;
  return HostBridge{first->domain, first->bus};
}

}  // namespace

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  return line;
}

int numa_node(const fs::path& function) {
  std::ifstream stream(function / "numa_node");
  int node = -1;
  if (!(stream >> node) || node < -1) return -1;
  return node;
}

bool is_pci_function(const fs::path& folder) {
  if (!Bdf::parse(folder.filename().string())) return false;
  std::error_code error;
  fs::path subsystem = fs::read_symlink(folder / "subsystem", error);
  return error || subsystem.filename() == "pci";
}

std::optional<PciFunction> pci_function(const fs::path& folder) {
  auto bdf = Bdf::parse(folder.filename().string());
  if (!bdf) return std::nullopt;
  PciFunction function{*bdf, hex_file(folder / "class"), pci_ids(folder), pci_link(folder),
                       std::nullopt};
  std::error_code error;
  fs::path physical = fs::read_symlink(folder / "physfn", error);
  if (!error) function.physical_function = Bdf::parse(physical.filename().string());
  return function;
}

std::vector<fs::path> pci_folders(const fs::path& sysfs_root) {
  std::vector<fs::path> folders;
  std::error_code error;
  fs::directory_iterator it(sysfs_root / "bus" / "pci" / "devices", error);
  for (fs::directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code broken;
    fs::path folder = fs::canonical(it->path(), broken);
    if (!broken && Bdf::parse(folder.filename().string())) folders.push_back(folder);
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

PciPosition pci_position(const fs::path& folder) {
  PciPosition position;
  std::vector<fs::path> bridges;
  fs::path above;
  for (const fs::path& part : folder.parent_path()) {
    above /= part;
    if (auto root = parse_host_bridge(part.string())) {
      // Behind Intel VMD a second host bridge lies below the first, with a tree of its own.
      position.host_bridge = root;
      bridges.clear();
    } else if (position.host_bridge && is_pci_function(above)) {
      bridges.push_back(above);
    }
  }
  for (const fs::path& one : bridges) {
    auto bridge = pci_function(one);
    position.bridges.push_back(Bridge{bridge->bdf, bridge->class_code, bridge->ids, bridge->link});
  }
  auto top = topmost_switch(position);
  position.numa = numa_node_of_tree(top ? bridges[*top] : folder, folder);
  return position;
}

int numa_node_of_tree(const fs::path& top, const fs::path& function) {
  std::error_code error;
  return numa_node(fs::exists(top / "numa_node", error) ? top : function);
}

void add_peers(Switch* one, const fs::path& sysfs_root) {
  if (one->ids.vendor != kBroadcomVendor) return;
  const fs::path links = sysfs_root / "kernel" / "pci_switch_link" / "virtual_switch_links";
  const fs::path functions = sysfs_root / "bus" / "pci" / "devices";
  std::set<Bdf> peers;
  std::error_code error, missing;
  fs::directory_iterator it(links / one->bdf.to_string(), error);
  for (fs::directory_iterator end; !error && it != end; it.increment(error)) {
    auto peer = Bdf::parse(it->path().filename().string());
    if (peer && fs::exists(functions / peer->to_string(), missing)) peers.insert(*peer);
  }
  for (const Bdf& known : one->peers) peers.erase(known);
  one->peers.insert(one->peers.end(), peers.begin(), peers.end());
}

void add_switch_peers(Machine* machine, const fs::path& sysfs_root) {
  for (Switch& one : machine->switches) add_peers(&one, sysfs_root);
}

double gt_per_s(const std::string& text) {
  double value = 0;
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  (void)stop;
  return error == std::errc() && value > 0 && value < 1000 ? value : 0;
}

int rate_mbps(std::string_view text) {
  double gbps = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gbps);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const bool sound = error == std::errc() && gbps > 0 && gbps < 1e6;
  return sound && unit.starts_with(" Gb/sec") ? static_cast<int>(gbps * 1000 + 0.5) : 0;
}

}  // namespace gdr::topology
