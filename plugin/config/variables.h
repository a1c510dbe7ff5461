// The table of options.def as rows, for parsing, tools and documentation.
#pragma once

#include <string>
#include <vector>

#include "plugin/config/options.h"
#include "plugin/config/values.h"

namespace gdr::config {

struct Variable {
  const char* name;
  const char* type;  // "integer", "boolean", "address family", "list", "path class", ...
  std::string accepted;
  std::string default_text;
  const char* unit;  // "" where there is none
  const char* since;
  const char* doc;

  // Reads a value into its field, or leaves all as it is and fails with the reason. Appends to
  // notes what was ignored.
  Status (*assign)(const std::string& value, Options* options, std::vector<std::string>* notes);
  // The field as it would be written in the environment; "" for none.
  std::string (*show)(const Options& options);
};

const std::vector<Variable>& variables();

// A row with what the environment makes of it.
struct Row {
  enum class State { kDefault, kSet, kRejected };

  const Variable* variable;
  State state;
  std::string value;                     // as set; "" for kDefault
  std::string effective;                 // what counts; the default's text where none is set
  std::vector<std::string> diagnostics;  // whole sentences
};

struct Description {
  std::vector<Row> rows;             // every variable, in the table's order
  std::vector<std::string> unknown;  // complaints about GDR_NCCL_* names that the table lacks
};

Description describe(const Environment& environment);

// docs/environment.md.
std::string markdown();

}  // namespace gdr::config
