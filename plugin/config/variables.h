// The table of options.def as rows, for parsing, tools and documentation.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"
#include "plugin/config/options.h"
#include "plugin/config/values.h"

namespace gdr::config {

// One environment variable that the plugin reads. Every text is for people; none ends in a full
// stop but `doc`.
struct Variable {
  const char* group;         // the heading that it has in docs/environment.md, "Queue pairs"
  const char* name;          // "NCCL_IB_TIMEOUT"
  const char* type;          // "integer", "boolean", "address family", "list", "path class", ...
  std::string accepted;      // "0 to 31"
  std::string default_text;  // "20"
  const char* unit;          // "4.096 us x 2^n"; "" where there is none
  const char* since;         // the plugin's first release that read it, "0.1.0"
  const char* doc;           // full sentences

  // Reads a value into its field and appends to `notes` what it ignored in it. On failure, which
  // the error's text explains, *options is unchanged.
  Status (*assign)(const std::string& value, Options* options, Findings* notes);
  // Returns the field as it would be written in the environment; "" where it is unset.
  std::string (*show)(const Options& options);
};

// Returns every variable, in the order of options.def.
const std::vector<Variable>& variables();

// Returns the text of docs/environment.md (markdown.cc).
std::string markdown();

}  // namespace gdr::config
