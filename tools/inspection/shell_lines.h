// Words and lines for a POSIX shell, each line with its line break.
#pragma once

#include <string>

namespace gdr::tools::topo {

// Returns a text in quotation marks, cleaned: one word of a command.
std::string shell_word(const std::string& text);

// Returns a line of a comment. It is cleaned, because names from files could start lines of their
// own.
std::string comment(const std::string& text);

// Returns `export NAME='VALUE'`; the value is quoted for the shell.
std::string export_line(const char* name, const std::string& value);

}  // namespace gdr::tools::topo
