// Defects of the reference plugin, at least one for each clause whose violation the suite must
// detect. The environment variable REFERENCE_PLUGIN_DEFECT selects one; without it the plugin is
// correct.
#pragma once

#include <cstdlib>
#include <string_view>

namespace gdr::reference {

inline bool has_defect(std::string_view name) {
  static const char* const chosen = std::getenv("REFERENCE_PLUGIN_DEFECT");
  return chosen != nullptr && name == chosen;
}

}  // namespace gdr::reference
