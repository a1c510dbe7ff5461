// What a topology file states about devices, beside what is read of the machine itself.
#pragma once

#include <string>
#include <vector>

#include "topology/model.h"

namespace gdr::topology {

// Takes from `live` what the file lacks about a PCI function: NCCL keeps what the file states, and
// reads only the rest from sysfs (ncclTopoGetXmlFromSys in its src/graph/xml.cc).
template <class Device, class Function>
void complete_function(Device* stated, const Function& live) {
  if (stated->class_code == 0) stated->class_code = live.class_code;
  if (stated->ids == PciIds{}) stated->ids = live.ids;
  if (stated->link.gt_per_s == 0) stated->link.gt_per_s = live.link.gt_per_s;
  if (stated->link.width == 0) stated->link.width = live.link.width;
}

// Returns the port of that number on the HCA of that name; null where none is.
inline const Port* find_port(const std::vector<Hca>& hcas, const std::string& name, int number) {
  for (const Hca& hca : hcas) {
    if (hca.name != name) continue;
    for (const Port& port : hca.ports) {
      if (port.number == number) return &port;
    }
  }
  return nullptr;
}

}  // namespace gdr::topology
