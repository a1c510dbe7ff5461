#include "topology/sources/sysfs_rdma.h"

#include <fstream>
#include <system_error>

namespace gdr::topology {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxStackedInterfaces = 8;  // VLAN on macvlan on ...; also ends a loop of links

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  return line;
}

// A virtio or platform child of a PCI function is no PCI function whatever it is called; where the
// link cannot be read (some containers), the name decides.
bool is_pci_function(const fs::path& folder) {
  if (!Bdf::parse(folder.filename().string())) return false;
  std::error_code error;
  fs::path subsystem = fs::read_symlink(folder / "subsystem", error);
  return error || subsystem.filename() == "pci";
}

int numa_node_of(const fs::path& folder) {
  std::ifstream stream(folder / "numa_node");
  int node = -1;
  if (!(stream >> node) || node < -1) return -1;
  return node;
}

// The PCI function that `link` leads to, or the nearest above it.
std::optional<PciPlace> place_behind(const fs::path& link) {
  std::error_code error;
  fs::path folder = fs::canonical(link, error);
  if (error) return std::nullopt;
  while (folder.has_relative_path()) {
    if (is_pci_function(folder)) {
      return PciPlace{folder.string(), *Bdf::parse(folder.filename().string()),
                      numa_node_of(folder)};
    }
    folder = folder.parent_path();
  }
  return std::nullopt;
}

// The name comes from a file: keep it from leading elsewhere.
bool is_interface_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// The only interface that `folder` is stacked on; none when there are several (a bond).
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

std::optional<PciPlace> place_of_interface(std::string name, const fs::path& sysfs_root) {
  for (int level = 0; level < kMaxStackedInterfaces && is_interface_name(name); ++level) {
    fs::path folder = sysfs_root / "class" / "net" / name;
    if (auto place = place_behind(folder / "device")) return place;
    std::optional<std::string> lower = lower_interface(folder);
    if (!lower) return std::nullopt;
    name = *lower;
  }
  return std::nullopt;
}

}  // namespace

std::optional<PciPlace> pci_place(const fs::path& ibdev_path, const fs::path& sysfs_root) {
  if (ibdev_path.empty()) return std::nullopt;
  if (auto place = place_behind(ibdev_path / "device")) return place;
  return place_of_interface(first_line(ibdev_path / "parent"), sysfs_root);
}

}  // namespace gdr::topology
