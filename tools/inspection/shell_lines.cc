#include "tools/inspection/shell_lines.h"

#include <fmt/format.h>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {

std::string shell_word(const std::string& text) {
  std::string quoted = "'";
  for (char c : clean_text(text)) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string comment(const std::string& text) { return "# " + clean_text(text) + "\n"; }

std::string export_line(const char* name, const std::string& value) {
  return std::string("export ") + name + "=" + shell_word(value) + "\n";
}

// NCCL takes a variable from its file only where the environment does not have it (setenv in its
// src/os/linux.cc), and one that is empty for unset.
std::string take_back(const UserSetting* setting, const std::string& name) {
  if (setting == nullptr || setting->file.empty()) return "unset " + name + "\n";
  return comment(fmt::format("Line {} of {} sets {}: remove it there. Until then, an empty value "
                             "in the environment overrides it.",
                             setting->line, setting->file, name)) +
         export_line(name.c_str(), "");
}

}  // namespace gdr::tools::topo
