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

struct Finding {
  Severity severity = Severity::kInfo;
  std::string subject;  // what it is about: a variable, a device, a GPU and HCA; may be empty
  std::string text;     // what was found, without a full stop at the end
  std::string fix;      // what the user can do, as an imperative; empty where nothing is known
};

using Findings = std::vector<Finding>;

// "subject: text. Fix: fix"; without the parts that are empty.
std::string to_string(const Finding& finding);

// Takes such a text apart, as those of errors are, into `text` and `fix`. The severity is kInfo,
// and a subject stays part of the text.
Finding split_fix(const std::string& text);

// Logs each with NCCL's logger: kInfo at INFO, the others at WARN. Subsystems as in base/log.h.
void log_findings(const Findings& findings, unsigned long subsystems);

}  // namespace gdr
