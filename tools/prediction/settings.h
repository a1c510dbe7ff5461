// NCCL's release, and its environment variables that decide which HCA a GPU uses, and whether by
// GPUDirect RDMA.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "topology/path_class.h"

namespace gdr::topology::nccl {

// A release of NCCL. The rules by which NCCL chooses HCAs and decides on GPUDirect differ from
// release to release.
struct Release {
  int major = 0;
  int minor = 0;
  int patch = 0;

  // Parses "2.28.9", "2.28" (the last patch of that minor release), or the number that
  // ncclGetVersion() returns ("22809"). Fails with kInvalidUsage for other text.
  static Result<Release> parse(std::string_view text);

  std::string to_string() const;  // "2.28.9"; "2.28" for a release without a patch number

  auto operator<=>(const Release&) const = default;
};

// The patch number that stands for "the last one".
inline constexpr int kLastPatch = 99;

// The releases whose rules are known. A newer release is taken to behave as the newest of these, an
// older one as the oldest.
inline constexpr Release kOldestRelease{2, 20, 0};
inline constexpr Release kNewestRelease{2, 30, 7};

// Returns what users should know about the rules of a release, in one sentence, or "":
// "the rules of NCCL 2.31.0 are not known; what it will do is predicted by those of 2.30.7".
std::string note_on_rules(const Release& release);

// NCCL_NETDEVS_POLICY: how many of the HCAs that are equally near to a GPU it uses.
struct NetDevicesPolicy {
  enum class Kind {
    kAuto,  // as many as leave no HCA unused: equally near HCAs divided by GPUs, rounded up
    kAll,
    kMax,  // at most `max`
  };
  Kind kind = Kind::kAuto;
  int max = 0;
};

struct Settings {
  Release release = kNewestRelease;
  std::optional<PathClass> gdr_level;  // NCCL_NET_GDR_LEVEL; nothing: unset
  // NCCL_NET_GDR_READ, for sends: 0 never, 1 always, negative: depends on the GPU, as if unset.
  int gdr_read = -2;
  std::optional<bool> gdr_c2c;  // NCCL_NET_GDR_C2C; nothing: the release's default
  bool gdr_mlopart = false;     // NCCL_NET_GDR_MLOPART
  bool pxn_disable = false;     // NCCL_PXN_DISABLE
  std::optional<bool> pxn_c2c;  // NCCL_PXN_C2C; nothing: the release's default
  // NCCL_P2P_LEVEL, or kLoc for NCCL_P2P_DISABLE=1; nothing: the release's default.
  std::optional<PathClass> p2p_level;
  bool nvb_disable = false;  // NCCL_NVB_DISABLE
  NetDevicesPolicy net_devices;
};

}  // namespace gdr::topology::nccl
