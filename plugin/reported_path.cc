#include "plugin/reported_path.h"

#include <filesystem>

#include "topology/sources/sysfs_files.h"

namespace gdr::plugin {
namespace {

constexpr uint32_t kNetworkController = 0x02;  // PCI base class

bool is_of_the_same_card(const std::filesystem::path& one, const std::filesystem::path& other) {
  auto a = topology::pci_function(one), b = topology::pci_function(other);
  return a.has_value() && b.has_value() && b->class_code >> 16 == kNetworkController &&
         a->ids.vendor == b->ids.vendor;
}

}  // namespace

std::string merged_path(const std::string& sysfs_path, bool merge_functions) {
  std::filesystem::path path = sysfs_path;
  auto bdf = topology::Bdf::parse(path.filename().string());
  if (!bdf.has_value()) return sysfs_path;
  if (merge_functions) bdf->device = 0;
  bdf->function = 0;
  std::filesystem::path merged = path.parent_path() / bdf->to_string();
  return is_of_the_same_card(path, merged) ? merged.string() : sysfs_path;
}

std::string reported_path(const topology::PciLocation& location,
                          const std::set<topology::Bdf>& listed, bool merge_functions) {
  if (listed.contains(location.bdf)) return location.sysfs_path;
  return merged_path(location.sysfs_path, merge_functions);
}

}  // namespace gdr::plugin
