#include "tools/inspection/text_table.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {
namespace {

constexpr size_t kColumnGap = 2;     // blanks between two columns
constexpr size_t kMinListWidth = 8;  // of a column that others leave too little room
constexpr size_t kMostListed = 4;    // of a short list

// Counts characters: the bytes that do not continue a UTF-8 character.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::vector<TextRow> clean(const std::vector<TextRow>& rows) {
  std::vector<TextRow> cleaned = rows;
  for (TextRow& row : cleaned) {
    for (std::string& cell : row) cell = clean_text(cell);
  }
  return cleaned;
}

std::vector<size_t> widths_of(const std::vector<TextRow>& rows) {
  std::vector<size_t> widths;
  for (const TextRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  return widths;
}

// Without control characters and line breaks.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  return clean_text(text);
}

// Breaks a list behind its commas into lines of at most `width` characters.
std::vector<std::string> lines_of(const std::string& text, size_t width) {
  constexpr std::string_view kSeparator = ", ";
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < text.size();) {
    const size_t found = text.find(kSeparator, at);
    const size_t end = found == std::string::npos ? text.size() : found + kSeparator.size();
    const std::string item = text.substr(at, end - at);
    const size_t blank = end == text.size() ? 0 : 1;  // that a line may end with
    if (!lines.back().empty() && width_of(lines.back()) + width_of(item) - blank > width) {
      lines.back().pop_back();
      lines.emplace_back();
    }
    lines.back() += item;
    at = end;
  }
  return lines;
}

// Replaces the rows by those that have the lists of one column on several lines.
void break_lists(size_t column, size_t width, std::vector<TextRow>* rows) {
  std::vector<TextRow> broken;
  for (TextRow& row : *rows) {
    if (column >= row.size()) {
      broken.push_back(std::move(row));
      continue;
    }
    const std::vector<std::string> lines = lines_of(row[column], width);
    const size_t columns = row.size();
    for (size_t i = 0; i < lines.size(); ++i) {
      broken.push_back(i == 0 ? std::move(row) : TextRow(columns));
      broken.back()[column] = lines[i];
    }
  }
  *rows = std::move(broken);
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
  const std::vector<TextRow> cleaned = clean(rows);
  const std::vector<size_t> widths = widths_of(cleaned);
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

std::string aligned_lists(const std::vector<TextRow>& rows, const std::string& indent,
                          const std::vector<size_t>& lists) {
  std::vector<TextRow> broken = clean(rows);
  for (size_t list : lists) {
    const std::vector<size_t> widths = widths_of(broken);
    size_t others = indent.size();
    for (size_t i = 0; i < widths.size(); ++i) others += i == list ? 0 : widths[i] + kColumnGap;
    const bool is_last = list + 1 == widths.size();
    if (others + (is_last ? 0 : kColumnGap) + widths[list] <= kTextWidth) break;
    break_lists(list, others + kMinListWidth < kTextWidth ? kTextWidth - others : kMinListWidth,
                &broken);
  }
  return aligned(broken, indent);
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
