// What the user chose through the environment. Read once, at init.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "plugin/config/environment.h"
#include "topology/gdr_level.h"
#include "topology/rail_map.h"
#include "transport/device/cidr.h"
#include "transport/device/hca_filter.h"
#include "transport/device/registration_paths.h"
#include "transport/device/socket_interface.h"

namespace gdr::config {

// One field for each row of options.def, which documents them; always within the row's range.
struct Options {
#define GDR_INTEGER(field, name, fallback, ...) int field = fallback;
#define GDR_BOOLEAN(field, name, fallback, ...) bool field = fallback;
#define GDR_FAMILY(field, name, fallback, ...) int field = fallback;
#define GDR_PARSED(type, field, ...) type field{};
#define GDR_TEXT(field, ...) std::string field;
#include "plugin/config/options.def"
};

// Something about the environment that the user should know.
struct Diagnostic {
  std::string variable;
  std::string text;       // whole: names the variable, its value and what is accepted
  bool rejected = false;  // the value could not be used, and the default stands
};

// Never fails: a value that cannot be used leaves the default and a complaint. `complaints` may be
// null. Variables named GDR_NCCL_* that the table lacks are complained of, with the nearest name.
Options load(const Environment& environment, std::vector<Diagnostic>* diagnostics);

}  // namespace gdr::config
