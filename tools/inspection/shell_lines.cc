#include "tools/inspection/shell_lines.h"

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

}  // namespace gdr::tools::topo
