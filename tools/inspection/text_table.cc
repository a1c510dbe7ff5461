#include "tools/inspection/text_table.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {
namespace {

constexpr size_t kColumnGap = 2;   // blanks between two columns
constexpr size_t kMostListed = 4;  // of a short list

// Counts characters: the bytes that do not continue a UTF-8 character.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Without control characters and line breaks.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  return clean_text(text);
}

}  // namespace

std::string short_list(const std::vector<std::string>& texts) {
  std::string list;
  const size_t shown = texts.size() <= kMostListed ? texts.size() : kMostListed - 1;
  for (size_t i = 0; i < shown; ++i) list += (list.empty() ? "" : ", ") + texts[i];
  if (shown < texts.size()) list += " and " + std::to_string(texts.size() - shown) + " more";
  return list;
}

std::string aligned(const std::vector<TextRow>& rows, const std::string& indent) {
  std::vector<TextRow> cleaned = rows;
  std::vector<size_t> widths;
  for (TextRow& row : cleaned) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = clean_text(row[i]);
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  }
  std::string text;
  for (const TextRow& row : cleaned) {
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - width_of(row[i]) + kColumnGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string wrapped(const std::string& head, const std::string& rest, const std::string& text) {
  std::istringstream words(one_line(text));
  std::string lines, line = head;
  bool is_empty = true;
  for (std::string word; words >> word;) {
    if (!is_empty && width_of(line) + 1 + width_of(word) > kTextWidth) {
      lines += line + "\n";
      line = rest;
      is_empty = true;
    }
    line += (is_empty ? "" : " ") + word;
    is_empty = false;
  }
  return lines + line + "\n";
}

std::string wrapped(const std::string& head, const std::string& text) {
  return wrapped(head, std::string(width_of(head), ' '), text);
}

std::string unbroken(const std::string& head, const std::string& text) {
  return head + one_line(text) + "\n";
}

}  // namespace gdr::tools::topo
