// NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ and NCCL_NET_GDR_C2C: whether NCCL will use GPUDirect RDMA
// between a GPU and an HCA. NCCL itself decides (ncclTopoCheckGdr in src/graph/paths.cc); this is
// the same decision computed in advance, with its reason, for logs and tools.
#pragma once

#include <optional>
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

// The three variables together.
struct GdrPolicy {
  std::optional<PathClass> level;  // NCCL_NET_GDR_LEVEL; nothing: unset
  // NCCL_NET_GDR_READ, for sends: 0 never, 1 always, negative: depends on the GPU, as if unset.
  int read = -2;
  bool c2c = true;  // NCCL_NET_GDR_C2C

  // Returns the farthest path class over which GPUDirect is allowed: the level or, where that is
  // unset, P2C with c2c and PXB without (NCCL 2.29 and later).
  PathClass farthest() const;
};

enum class Direction {
  kSend,     // the HCA reads GPU memory
  kReceive,  // the HCA writes GPU memory
};

struct Verdict {
  bool direct = false;
  bool too_far = false;  // not direct because of the distance, and only because of it
  std::string reason;    // "PIX is within PXB", "SYS is beyond NCCL_NET_GDR_LEVEL=PXB", ...
};

// Returns "yes: " or "no: " and the reason.
std::string to_string(const Verdict& verdict);

// Returns what NCCL will decide for this pair. Where it is unknown whether GPU or HCA support
// GPUDirect, they are assumed to.
Verdict gdr_verdict(const Machine& machine, const PathTable& paths, const GdrPolicy& policy,
                    size_t gpu, size_t hca, Direction direction);

// The verdicts in both directions.
struct Verdicts {
  Verdict send;
  Verdict receive;
};
Verdicts gdr_verdicts(const Machine& machine, const PathTable& paths, const GdrPolicy& policy,
                      size_t gpu, size_t hca);

}  // namespace gdr::topology
