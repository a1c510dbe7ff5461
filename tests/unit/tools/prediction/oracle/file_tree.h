// A NCCL topology file as NCCL sees it in a job of all its GPUs: completed and trimmed.
#pragma once

#include <pugixml.hpp>
#include <string>
#include <vector>

namespace gdr::topology::oracle {

// Whether the element has that name.
bool is(const pugi::xml_node& node, const char* name);

// Returns what NCCL computes from a bus id: the hexadecimal digits in a row.
int64_t bus_number(const std::string& busid);

// Returns a whole number as strtol() with base 0 reads it; `otherwise` where there is no attribute.
int number_of(const pugi::xml_node& node, const char* attribute, int otherwise);

// Reads the text and
// - keeps the CPUs of the first host only;
// - sets what NCCL would find on the machine itself: the class of PCI functions, empty link speeds,
//   and for GPUs `dev`, `sm` (80) and `gdr` (1), for <net> `dev` and `gdr` (1);
// - makes a GPU of every function of that class where the file has no <gpu>;
// - sets `rank` of each GPU: its position by PCI address and partition;
// - removes <net net="0">, and branches without a GPU and without a <net>.
// Throws Failure where the text is no such file.
pugi::xml_document read_file_tree(const std::string& text);

}  // namespace gdr::topology::oracle
