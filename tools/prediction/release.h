// A release of NCCL. The rules by which NCCL chooses HCAs and decides on GPUDirect differ from
// release to release.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gdr::topology::nccl {

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

}  // namespace gdr::topology::nccl
