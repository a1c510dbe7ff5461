// Tables and paragraphs of plain text, for terminals.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gdr::tools::topo {

inline constexpr size_t kTextWidth = 100;  // characters of a line, where what it holds allows that

using TextRow = std::vector<std::string>;

// Returns the texts joined by commas or, of more than four, the first three and how many more there
// are: "a, b, c and 5 more".
std::string short_list(const std::vector<std::string>& texts);

// Returns one line for each row, cells aligned on the left by blanks, since tabs break when people
// paste them. Rows may have fewer cells than others. Cells are cleaned by clean_text().
std::string aligned(const std::vector<TextRow>& rows, const std::string& indent);

// Returns the text behind `head`, broken at blanks into lines of kTextWidth; those after the first
// begin with `rest`, or with as many blanks as `head` has characters. The text is cleaned, and its
// line breaks are blanks.
std::string wrapped(const std::string& head, const std::string& text);
std::string wrapped(const std::string& head, const std::string& rest, const std::string& text);

// Returns the same as one line, for texts that have a command, which somebody copies.
std::string unbroken(const std::string& head, const std::string& text);

}  // namespace gdr::tools::topo
