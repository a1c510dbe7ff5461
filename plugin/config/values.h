// How single values are read, the way NCCL reads them except that nonsense is refused.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace gdr::config {

struct IntegerRange {
  int64_t low;
  int64_t high;
};

// strtoll's base 0, as NCCL: decimal, 0x hexadecimal, leading 0 octal. NCCL reads "7x" as 7 and "x"
// as 0; here both are refused.
Status parse_integer(const std::string& text, IntegerRange range, int* value);
// 0 or 1. NCCL takes any other number for 1; here it is refused.
Status parse_boolean(const std::string& text, bool* value);
// "AF_INET" or "AF_INET6", in capitals, as NCCL.
Status parse_family(const std::string& text, int* value);

const char* family_name(int family);  // "" for AF_UNSPEC

// In double quotes, fit for a log line: control characters as '?', at most 128 characters.
std::string quoted(const std::string& text);

// The least number of letters to insert, drop or change to make one of the other.
size_t edit_distance(const std::string& a, const std::string& b);

}  // namespace gdr::config
