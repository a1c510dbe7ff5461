#include "tools/topo/columns.h"

#include <algorithm>

#include "tools/topo/labels.h"

namespace gdr::topology {
namespace {

constexpr size_t kGap = 2;

// Characters, not bytes: those that do not continue one.
size_t width_of(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace

std::string aligned(const std::vector<TextRow>& rows, const std::string& indent) {
  std::vector<TextRow> clean;
  std::vector<size_t> widths;
  for (const TextRow& row : rows) {
    clean.emplace_back();
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      clean.back().push_back(clean_text(row[i]));
      widths[i] = std::max(widths[i], width_of(clean.back()[i]));
    }
  }
  std::string text;
  for (const TextRow& row : clean) {
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - width_of(row[i]) + kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace gdr::topology
