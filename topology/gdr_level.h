// NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ and NCCL_NET_GDR_C2C: how far apart a GPU and an HCA may be
// for GPUDirect RDMA, as NCCL decides it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "topology/path_class.h"

namespace gdr::topology {

// NCCL_NET_GDR_LEVEL's value: a class by name, in capitals, or a number of old (0 LOC, 1 PIX, 2
// PXB, 3 PHB, 4 and above SYS; read as strtol with base 0 reads it).
class GdrLevel {
 public:
  static Result<GdrLevel> parse(std::string_view text);

  PathClass path() const { return path_; }
  std::string to_string() const { return topology::to_string(path_); }
  // For the user who wrote a number; "" for one who wrote a name.
  const std::string& number_note() const { return number_note_; }

 private:
  PathClass path_ = PathClass::kLoc;
  std::string number_note_;
};

struct GdrPolicy {
  std::optional<PathClass> level;  // NCCL_NET_GDR_LEVEL
  int read = -2;    // NCCL_NET_GDR_READ: 0 never, 1 always, below 0 by the GPU's kind
  bool c2c = true;  // NCCL_NET_GDR_C2C

  // The farthest class that may be direct.
  PathClass farthest() const;
};

enum class Direction { kSend, kReceive };  // kSend: the HCA reads GPU memory

struct Verdict {
  bool direct = false;
  bool too_far = false;  // else something other than distance is in the way
  std::string reason;    // "PIX is within PXB", "SYS is beyond NCCL_NET_GDR_LEVEL=PXB", ...
};

// "yes: PIX is within PXB", "no: ..."
std::string to_string(const Verdict& verdict);

// What NCCL will decide for this pair. What is not known of GPU or HCA is taken for the best.
Verdict gdr_verdict(const Machine& machine, const PathTable& paths, const GdrPolicy& policy,
                    size_t gpu, size_t hca, Direction direction);

struct Verdicts {
  Verdict send;
  Verdict receive;
};
Verdicts gdr_verdicts(const Machine& machine, const PathTable& paths, const GdrPolicy& policy,
                      size_t gpu, size_t hca);

}  // namespace gdr::topology
