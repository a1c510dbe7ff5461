// GDR_NCCL_RAIL_MAP: the user's own assignment of GPUs to HCAs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/bdf.h"

namespace gdr::topology {

// Entries `gpu=hca[:port][,hca[:port]...]`, separated by ';' or line ends; in a file, '#' starts a
// comment. `gpu` is its number (by PCI address, over all GPUs of the machine), also as GPU3, or its
// PCI address. Rails are numbered as the map mentions them.
class RailMap {
 public:
  struct Target {
    std::string hca;
    int port = -1;  // -1: its only, or first, port
  };
  struct Entry {
    int index = -1;  // of the GPU; -1: by address
    std::optional<Bdf> bdf;
    std::vector<Target> targets;
    std::string gpu_text;  // as written
  };

  // Text with a '=' is the map itself, other text names a file that has it.
  static Result<RailMap> parse(std::string_view text);
  static Result<RailMap> parse_entries(std::string_view text);

  const std::vector<Entry>& entries() const { return entries_; }
  std::string to_string() const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace gdr::topology
