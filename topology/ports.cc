#include "topology/ports.h"

namespace gdr::topology {

const Hca& hca_of(const Machine& machine, PortRef port) { return machine.hcas[port.hca]; }

const Port& port_of(const Machine& machine, PortRef port) {
  return hca_of(machine, port).ports[port.port];
}

std::string port_name(const Machine& machine, PortRef port) {
  const Hca& hca = hca_of(machine, port);
  if (hca.ports.size() == 1 && hca.ports[0].number == 1) return hca.name;
  return port_label(machine, port);
}

std::string port_label(const Machine& machine, PortRef port) {
  return hca_of(machine, port).name + ":" + std::to_string(port_of(machine, port).number);
}

}  // namespace gdr::topology
