#include "topology/cpu_mask.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdio>

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

// Takes a number off the front of the text. Returns nothing where there is none up to kMaxCpu.
std::optional<int> take_cpu(std::string_view* text) {
  int cpu = -1;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), cpu);
  if (error != std::errc() || cpu < 0 || cpu > kMaxCpu) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return cpu;
}

}  // namespace

std::optional<std::string> mask_of_list(std::string_view list) {
  std::array<uint32_t, (kMaxCpu + 1) / 32> groups = {};
  size_t used = 0;
  for (bool first = true; first || !list.empty(); first = false) {
    if (!first && !list.starts_with(',')) return std::nullopt;
    if (!first) list.remove_prefix(1);
    const std::optional<int> from = take_cpu(&list);
    if (!from) return std::nullopt;
    std::optional<int> to = from;
    if (list.starts_with('-')) {
      list.remove_prefix(1);
      to = take_cpu(&list);
    }
    if (!to || *to < *from) return std::nullopt;
    for (auto cpu = static_cast<size_t>(*from); cpu <= static_cast<size_t>(*to); ++cpu) {
      groups[cpu / 32] |= uint32_t{1} << cpu % 32;
      used = std::max(used, cpu / 32 + 1);
    }
  }
  std::string mask;
  while (used > 0) {
    char group[9];
    std::snprintf(group, sizeof(group), "%08x", groups[--used]);
    mask += (mask.empty() ? "" : ",") + std::string(group);
  }
  return mask;
}

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
