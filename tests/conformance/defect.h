// The defects that the reference plugin can be given, one for each clause that the suite must be
// seen to notice. REFERENCE_PLUGIN_DEFECT names one; unset means a correct plugin.
#pragma once

#include <cstdlib>
#include <string_view>

namespace gdr::reference {

inline bool has_defect(std::string_view name) {
  static const char* const chosen = std::getenv("REFERENCE_PLUGIN_DEFECT");
  return chosen != nullptr && name == chosen;
}

}  // namespace gdr::reference
