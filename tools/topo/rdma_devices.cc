#include "tools/topo/rdma_devices.h"

#include <algorithm>
#include <string_view>

namespace gdr::tools::topo {
namespace {

constexpr int kManufacturerShift = 40;  // a GUID begins with 24 bits of its manufacturer

// "mlx5_" of "mlx5_0".
std::string_view without_number(std::string_view name) {
  return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

// Whether another HCA of the model and the driver registers GPU memory.
bool has_peer_with_gpudirect(const Machine& machine, const Hca& hca) {
  return std::any_of(machine.hcas.begin(), machine.hcas.end(), [&](const Hca& other) {
    return other.gpudirect.value_or(false) && other.ids == hca.ids &&
           without_number(other.name) == without_number(hca.name);
  });
}

}  // namespace

bool is_rdma_device(const Machine& machine, const Hca& hca) {
  const bool has_guid = hca.guid >> kManufacturerShift != 0;
  return !machine.nccl_file || has_guid || hca.gpudirect.value_or(true) ||
         has_peer_with_gpudirect(machine, hca);
}

bool is_rdma_port(const Machine& machine, PortRef port) {
  return is_rdma_device(machine, hca_of(machine, port));
}

bool has_rdma_rail(const Machine& machine, const topology::Disagreement& one) {
  return std::any_of(one.rails.begin(), one.rails.end(),
                     [&](PortRef port) { return is_rdma_port(machine, port); });
}

}  // namespace gdr::tools::topo
