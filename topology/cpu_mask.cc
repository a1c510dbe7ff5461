#include "topology/cpu_mask.h"

#include <cctype>

namespace gdr::topology {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Appends the CPUs of one group of 32, whose digits have the highest CPUs first. Returns false
// where the group is malformed.
bool read_group(std::string_view group, int first_cpu, std::vector<int>* cpus) {
  if (group.empty() || group.size() > 8) return false;
  for (size_t i = 0; i < group.size(); ++i) {
    int digit = hex_digit(group[group.size() - 1 - i]);
    if (digit < 0) return false;
    for (int bit = 0; bit < 4; ++bit) {
      if ((digit >> bit) & 1) cpus->push_back(first_cpu + static_cast<int>(i) * 4 + bit);
    }
  }
  return true;
}

}  // namespace

std::optional<std::vector<int>> cpus_in(std::string_view mask) {
  std::vector<int> cpus;
  for (int first = 0;; first += 32) {
    size_t comma = mask.rfind(',');
    size_t begin = comma == std::string_view::npos ? 0 : comma + 1;
    if (!read_group(mask.substr(begin), first, &cpus)) return std::nullopt;
    if (begin == 0) return cpus;
    mask = mask.substr(0, comma);
  }
}

}  // namespace gdr::topology
