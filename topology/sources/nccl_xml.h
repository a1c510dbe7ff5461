// Reads NCCL's topology files: what NCCL writes to NCCL_TOPO_DUMP_FILE, what clouds provide as
// NCCL_TOPO_FILE. NCCL's src/graph/xml.cc and src/graph/topo.cc define the elements:
//
//   <system version="1">
//     <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" ...>
//       <pci busid="0000:16:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
//         <pci busid="0000:1b:00.0" class="0x030200" ...><gpu dev="0" sm="90" gdr="1"/></pci>
//         <pci busid="0000:18:00.0" class="0x020700" ...>
//           <nic><net name="mlx5_0" port="1" speed="400000"/></nic>
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::topology {

// Reads a file. GPUs are the PCI elements with a <gpu> or, in a file without any <gpu>, those of a
// GPU's class. HCAs are the <net> elements or, in a file without any <net>, the PCI elements of
// class 02xx, which are then named by their addresses. All other PCI elements that contain others
// are switches, as they are to NCCL. Devices carry their position in the file (Attachment::order).
//
// NCCL 2.21 and later write one file for all hosts of an NVLink domain. `selection` then says which
// of them to read; Machine::host is its host_hash, and Machine::hosts says how many there are.
// Fails with InvalidArgument; the text names the file and the line.
Result<Machine> nccl_xml(const std::string& file, const Selection& selection = {});

// Reads every host of a file, in the order of the file, whatever selection.host is.
Result<std::vector<Machine>> nccl_xml_hosts(const std::string& file,
                                            const Selection& selection = {});

// Returns what is wrong with a file that NCCL reads on this machine: what NCCL refuses or does not
// read as it looks, and why nccl_xml() fails.
Findings nccl_file_findings(const std::string& file);

// Returns the GPUs, by NVML's numbers, that a graph of NCCL (NCCL_GRAPH_FILE) has channels over;
// -1 for those that it names by their ranks; nothing where it has no channels. Fails where NCCL
// refuses the file.
Result<std::set<int>> gpus_of_graph(const std::string& file);

// Reads the text of such a file.
Result<Machine> nccl_xml_text(const std::string& text, const Selection& selection = {});

}  // namespace gdr::topology
