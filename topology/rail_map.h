// GDR_NCCL_RAIL_MAP: the user's own assignment of HCA ports to GPUs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/bdf.h"

namespace gdr::topology {

// A parsed map. Its grammar:
//
//   map    = entry { (';' | line end) entry }
//   entry  = gpu '=' target { ',' target }
//   gpu    = number | 'GPU' number | PCI address
//   target = hca [ ':' port ]
//
// In a file, '#' starts a comment. Numbers of GPUs count all GPUs of the machine in the order of
// their PCI addresses. A target without a port is the first port, usually the only one. Examples:
//
//   GPU0=mlx5_0;GPU1=mlx5_3                one port each
//   0=mlx5_0:1,mlx5_0:2                    both ports of a card for GPU 0
//   0000:1b:00.0=mlx5_0;0000:43:00.0=mlx5_3:1
//   GPU0=0102:00:00.0                      an HCA of a file without names is called by its address
//
// Rails are numbered in the order in which the map mentions them first.
class RailMap {
 public:
  struct Target {
    std::string hca;
    int port = -1;  // 1..255; -1: none was given
  };
  struct Entry {
    int index = -1;          // the GPU's number; -1: by address
    std::optional<Bdf> bdf;  // the GPU's address
    std::vector<Target> targets;
    std::string gpu_text;  // the GPU as the user wrote it, for errors
  };

  // Parses the value of the variable: text with a '=' is the map itself, other text names a file
  // that holds it (at most 1 MiB). Errors are kInvalidUsage and quote the entry. Whether GPUs and
  // HCAs exist is not checked here but by plan_rails().
  static Result<RailMap> parse(std::string_view text);
  // Parses entries only.
  static Result<RailMap> parse_entries(std::string_view text);

  // Never empty.
  const std::vector<Entry>& entries() const { return entries_; }

  // Returns text that parse_entries() turns into the same map.
  std::string to_string() const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace gdr::topology
