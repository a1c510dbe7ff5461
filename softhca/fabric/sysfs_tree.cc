#include "softhca/fabric/sysfs_tree.h"

#include <endian.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace softhca {

namespace {

namespace fs = std::filesystem;

// Renames the new file into its place: a reader finds the old text or the new one.
void write_file(const fs::path& path, const std::string& text) {
  fs::path next = path.string() + "~";
  std::ofstream(next) << text << '\n';
  std::error_code ignored;
  fs::rename(next, path, ignored);
}

std::string first_line(const fs::path& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

std::string hex(uint64_t value, int digits) {
  char text[17];
  snprintf(text, sizeof text, "%0*llx", digits, static_cast<unsigned long long>(value));
  return text;
}

std::string colon_groups(uint64_t value) {
  std::string digits = hex(value, 16);
  return digits.substr(0, 4) + ":" + digits.substr(4, 4) + ":" + digits.substr(8, 4) + ":" +
         digits.substr(12, 4);
}

// Creates <root>/devices/pci0000:3b/0000:3b:00.0, as sysfs has it.
fs::path make_pci_function(const fs::path& root, const DeviceConfig& device) {
  fs::path folder = root / "devices" / ("pci" + device.pci.substr(0, 7)) / device.pci;
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  fs::create_directory_symlink("/sys/bus/pci", folder / "subsystem", ignored);
  write_file(folder / "class", "0x020700");
  write_file(folder / "vendor", "0x1af4");
  write_file(folder / "device", "0x10f7");
  write_file(folder / "subsystem_vendor", "0x1af4");
  write_file(folder / "subsystem_device", "0x0001");
  write_file(folder / "numa_node", std::to_string(device.numa_node));
  write_file(folder / "max_link_speed", "32.0 GT/s PCIe");
  write_file(folder / "max_link_width", "16");
  write_file(folder / "current_link_speed", "32.0 GT/s PCIe");
  write_file(folder / "current_link_width", "16");
  return folder;
}

const char* link_layer_text(uint8_t link_layer) {
  if (link_layer == IBV_LINK_LAYER_UNSPECIFIED) return "Unspecified";
  return link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
}

std::string lid_text(uint16_t lid) { return "0x" + hex(lid, 1); }

void write_gid(const fs::path& port, uint32_t index, const GidEntry& entry) {
  std::string name = std::to_string(index);
  write_file(port / "gids" / name, colon_groups(be64toh(entry.gid.global.subnet_prefix)) + ":" +
                                       colon_groups(be64toh(entry.gid.global.interface_id)));
  // The kernel has one name for the GID types of InfiniBand and RoCE v1.
  write_file(port / "gid_attrs" / "types" / name,
             entry.type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
}

void make_port(const fs::path& folder, const DeviceConfig& device, uint32_t port) {
  std::error_code ignored;
  fs::create_directories(folder / "gids", ignored);
  fs::create_directories(folder / "gid_attrs" / "types", ignored);
  fs::create_directories(folder / "pkeys", ignored);
  fs::create_directories(folder / "counters", ignored);
  write_file(folder / "counters" / "link_downed", "0");
  const PortConfig& config = device.port(port);
  write_file(folder / "state", "4: ACTIVE");
  write_file(folder / "phys_state", "5: LinkUp");
  write_file(folder / "link_layer", link_layer_text(config.link_layer));
  if (config.gbps() > 0) write_file(folder / "rate", rate_text(config.gbps(), config.link()));
  write_file(folder / "lid", lid_text(config.lid));
  write_file(folder / "pkeys" / "0", "0xffff");
  uint32_t index = 0;
  for (const GidEntry& entry : device.gid_table(port)) write_gid(folder, index++, entry);
}

fs::path device_folder(const std::string& root, const DeviceConfig& device) {
  return fs::path(root) / "class" / "infiniband" / device.name;
}

fs::path port_folder(const std::string& root, const DeviceConfig& device, uint32_t port) {
  return device_folder(root, device) / "ports" / std::to_string(port);
}

const char* node_type_text(Transport transport) {
  switch (transport) {
    case Transport::kIwarp:
      return "4: RNIC";
    case Transport::kUnspecified:
      return "7: unspecified";
    case Transport::kInfiniBand:
      break;
  }
  return "1: CA";
}

}  // namespace

void make_sysfs_tree(const std::string& root, const DeviceConfig& device) {
  fs::path folder = device_folder(root, device);
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  write_file(folder / "node_guid", colon_groups(device.guid));
  write_file(folder / "node_type", node_type_text(device.transport));
  write_file(folder / "node_desc", device.name);
  write_file(folder / "fw_ver", "1.0.0");
  write_file(folder / "hca_type", "softhca");
  write_file(folder / "board_id", "SOFTHCA0000000001");
  for (uint32_t port = 1; port <= device.ports; ++port) {
    make_port(port_folder(root, device, port), device, port);
  }
  if (device.pci.empty()) return;
  fs::path real = fs::canonical("/sys/bus/pci/devices/" + device.pci, ignored);
  if (real.empty()) real = make_pci_function(root, device);
  fs::create_directory_symlink(real, folder / "device", ignored);
}

void write_gid_files(const std::string& root, const DeviceConfig& device, uint32_t port,
                     uint32_t index, const GidEntry& entry) {
  write_gid(port_folder(root, device, port), index, entry);
}

void write_lid_file(const std::string& root, const DeviceConfig& device, uint32_t port,
                    uint16_t lid) {
  write_file(port_folder(root, device, port) / "lid", lid_text(lid));
}

// A port without a link looks for one: it is in the state Polling (IBTA 14.2.5.6).
void write_state_files(const std::string& root, const DeviceConfig& device, uint32_t port,
                       bool active) {
  const fs::path folder = port_folder(root, device, port);
  const bool was_active = first_line(folder / "state").starts_with("4");
  if (was_active && !active) {
    const fs::path count = folder / "counters" / "link_downed";
    write_file(count, std::to_string(std::strtoul(first_line(count).c_str(), nullptr, 10) + 1));
  }
  write_file(folder / "state", active ? "4: ACTIVE" : "1: DOWN");
  write_file(folder / "phys_state", active ? "5: LinkUp" : "2: Polling");
}

void remove_sysfs_tree(const std::string& root, const DeviceConfig& device) {
  std::error_code ignored;
  fs::remove_all(fs::path(root) / "class/infiniband" / device.name, ignored);
}

void make_module_tree(const std::string& root, PeermemModule peermem) {
  std::error_code ignored;
  auto make_version = [&](const fs::path& folder) {
    fs::create_directories(root / folder, ignored);
    write_file(root / folder / "version", "softhca");
  };
  fs::create_directories(fs::path(root) / "module", ignored);
  if (peermem == PeermemModule::kNvidiaPeermem) make_version("module/nvidia_peermem");
  if (peermem == PeermemModule::kNvPeerMem) make_version("kernel/mm/memory_peers/nv_mem");
}

}  // namespace softhca
