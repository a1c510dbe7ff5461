// A finding: the one form in which the plugin and its tools report to a person what they noticed
// about a setting, a device or the machine.
//
// Example, as text: "mlx5_0:1: the GID at index 5 is empty. Fix: set NCCL_IB_GID_INDEX=3".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gdr {

enum class Severity : uint8_t {
  kInfo,     // worth knowing; nothing has to be done
  kWarning,  // it costs bandwidth or safety, and the user can change that
  kError,    // it does not work, or a value is not used
};

// What a finding is about. Code decides by it: the text may change.
enum class FindingKind : uint8_t {
#define GDR_FINDING_KIND(name, id) name,
#include "base/finding_kinds.def"
#undef GDR_FINDING_KIND
};

// Returns the kind's id, as logs and JSON have it: "slow-link".
const char* id_of(FindingKind kind);

struct Finding {
  FindingKind kind = {};
  Severity severity = Severity::kInfo;
  std::string subject;  // what it is about: a variable, a device, a GPU and HCA; may be empty
  std::string text;     // what was found, without a full stop at the end
  std::string fix;      // what the user can do, as an imperative; empty where nothing is known
};

using Findings = std::vector<Finding>;

// "subject: text. Fix: fix"; without the parts that are empty.
std::string to_string(const Finding& finding);

// The text of an error, which may end in ". Fix: ...", taken apart.
struct TextAndFix {
  std::string text, fix;
};
TextAndFix split_fix(const std::string& text);
std::string to_string(const TextAndFix& parts);

// Logs each with NCCL's logger, behind the id of its kind: kInfo at INFO, the others at WARN.
// Subsystems as in base/log.h.
void log_findings(const Findings& findings, unsigned long subsystems);

}  // namespace gdr
