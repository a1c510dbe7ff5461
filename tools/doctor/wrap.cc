#include "tools/doctor/wrap.h"

#include <algorithm>
#include <sstream>

#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

// One line without control characters; line breaks and tabs become blanks.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  return topo::clean_text(text);
}

}  // namespace

std::string wrapped(const std::string& first, const std::string& rest, const std::string& text) {
  std::istringstream words(one_line(text));
  std::string lines, line = first;
  bool is_empty = true;
  for (std::string word; words >> word;) {
    if (!is_empty && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line = rest;
      is_empty = true;
    }
    line += (is_empty ? "" : " ") + word;
    is_empty = false;
  }
  return lines + line + "\n";
}

std::string wrapped(const std::string& first, const std::string& text) {
  return wrapped(first, std::string(first.size(), ' '), text);
}

std::string unbroken(const std::string& first, const std::string& text) {
  return first + one_line(text) + "\n";
}

}  // namespace gdr::tools::doctor
