// The values of NCCL_NET_GDR_LEVEL, up to which distance NCCL uses GPUDirect RDMA between a GPU and
// an HCA.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "topology/path_class.h"

namespace gdr::topology {

// A value of NCCL_NET_GDR_LEVEL.
class GdrLevel {
 public:
  // Parses the name of a path class in capitals ("PIX", "PXB", ...), or a number in NCCL's legacy
  // form: 0 LOC, 1 PIX, 2 PXB, 3 PHB, 4 and above SYS. A number is read as strtol() with base 0
  // reads it, so "0x2" is PXB and "08" is LOC. Fails with kInvalidUsage for text that NCCL ignores
  // too, such as "pix".
  static Result<GdrLevel> parse(std::string_view text);

  PathClass path() const { return path_; }
  std::string to_string() const { return topology::to_string(path_); }

  // Returns a note for users who wrote a number, since many guides number the levels differently;
  // "" for a name.
  const std::string& number_note() const { return number_note_; }

 private:
  PathClass path_ = PathClass::kLoc;
  std::string number_note_;
};

}  // namespace gdr::topology
