// Lines that fit a screen.
#pragma once

#include <cstddef>
#include <string>

namespace gdr::tools::doctor {

inline constexpr size_t kColumns = 100;

// Returns `text` after `first`, broken at blanks so that no line is longer than kColumns unless a
// word is; the lines after the first begin below the text, or with `rest` where it is given. Ends
// with a line break. The text is cleaned, because it has names and contents of files.
std::string wrapped(const std::string& first, const std::string& text);
std::string wrapped(const std::string& first, const std::string& rest, const std::string& text);

// Returns the same as one line, for texts that have a command, which somebody copies.
std::string unbroken(const std::string& first, const std::string& text);

}  // namespace gdr::tools::doctor
