// Ports of a machine: how to refer to one, and how to name it.
#pragma once

#include <compare>
#include <string>

#include "topology/model.h"

namespace gdr::topology {

// A port of the machine, by position.
struct PortRef {
  int hca = 0;   // index in Machine::hcas
  int port = 0;  // index in Hca::ports
  auto operator<=>(const PortRef&) const = default;
};

const Hca& hca_of(const Machine& machine, PortRef port);
const Port& port_of(const Machine& machine, PortRef port);

// Returns "mlx5_0" for the only port of an HCA if that is port 1, else "mlx5_0:2".
std::string port_name(const Machine& machine, PortRef port);
// Returns "mlx5_0:1" in every case.
std::string port_label(const Machine& machine, PortRef port);

}  // namespace gdr::topology
