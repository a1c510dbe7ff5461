// The order in which NCCL comes across the devices of a machine: that of its XML tree.
//
// A machine that was read from a NCCL topology file has the order of the file. For any other, the
// order is that of a job with one rank for each GPU, ranks in the order of Machine::gpus. From NCCL
// 2.21 on, each rank adds its own GPU and then all network devices, and the trees are fused: so
// the tree of the first rank comes first, and of the others what it lacks is appended (src/graph,
// ncclTopoGetSystem in topo.cc, ncclTopoFuseXml in xml.cc). NCCL 2.20 adds all GPUs, then the
// network devices. What one rank adds below a switch or a CPU is sorted by PCI address.
#pragma once

#include <string>
#include <vector>

#include "topology/ports.h"

namespace gdr::topology::nccl {

struct XmlElement {
  enum class Kind { kCpu, kSwitch, kGpu, kNic, kNicWithoutPci };
  Kind kind = Kind::kCpu;
  int index = 0;              // kCpu, kSwitch: the one in the Machine
  std::string address;        // PCI address; "" for a CPU and for kNicWithoutPci
  int order = -1;             // position in the file; -1: none
  std::vector<int> members;   // kGpu: indexes in Machine::gpus; NICs: numbers of devices
  std::vector<int> children;  // indexes in XmlTree::elements
};

struct XmlTree {
  std::vector<XmlElement> elements;
  std::vector<int> cpus;  // indexes in `elements`
};

// Returns the tree of the GPUs and network devices, with the switches and CPUs above them. GPUs
// that share a PCI function are one element, and so are ports that do.
XmlTree make_xml_tree(const Machine& machine, const std::vector<PortRef>& devices,
                      bool fuses_ranks);

}  // namespace gdr::topology::nccl
