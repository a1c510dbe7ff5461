#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <system_error>
#include <vector>

#include "tools/inspection/file_content.h"
#include "tools/inspection/inspection.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::tools::topo {
namespace {

namespace fs = std::filesystem;

constexpr int kBars = 6;

topology::PciLink current_link(const fs::path& folder) {
  const int width = std::atoi(topology::first_line(folder / "current_link_width").c_str());
  const double speed = topology::gt_per_s(topology::first_line(folder / "current_link_speed"));
  if (speed == 0 || width <= 0 || width > 32) return {};
  return {speed, width};
}

PciState read_state(const fs::path& folder) {
  const auto function = topology::pci_function(folder);
  return PciState{current_link(folder), largest_bar(file_content(folder / "resource").value_or("")),
                  function ? function->link : topology::PciLink{}};
}

}  // namespace

uint64_t largest_bar(std::string_view resource) {
  std::istringstream lines{std::string(resource)};
  lines >> std::hex;
  uint64_t largest = 0, first = 0, last = 0, flags = 0;
  for (int bar = 0; bar < kBars && lines >> first >> last >> flags; ++bar) {
    if (last > first) largest = std::max(largest, last - first + 1);
  }
  return largest;
}

PciStates read_pci_states(const topology::Machine& machine, const fs::path& sysfs_root) {
  PciStates states;
  auto add = [&](const topology::Bdf& bdf) {
    const fs::path folder = sysfs_root / "bus" / "pci" / "devices" / bdf.to_string();
    std::error_code ignored;
    if (fs::exists(folder, ignored)) states[bdf] = read_state(folder);
  };
  for (const topology::Switch& one : machine.switches) add(one.bdf);
  for (const topology::Gpu& one : machine.gpus) add(one.bdf);
  for (const topology::Hca& one : machine.hcas) {
    if (one.bdf.has_value()) add(*one.bdf);
  }
  return states;
}

}  // namespace gdr::tools::topo
