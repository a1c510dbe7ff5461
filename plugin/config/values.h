// Parsers of single values. They read what NCCL reads, and reject what NCCL would silently misread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace gdr::config {

// Both bounds are included.
struct IntegerRange {
  int64_t low;
  int64_t high;
};

// Returns what NCCL reads (ncclLoadParam in its src/misc/param.cc): 7 for "7x", and 0 for "x".
// Nothing where the number is out of range, and NCCL takes its default.
std::optional<int64_t> nccl_number(const std::string& text);

// Each parser sets *value on success and leaves it unchanged on failure (kInvalidUsage), whose text
// is a reason that fits behind "cannot be used: ".

// Reads a number as strtoll with base 0, which NCCL uses: decimal, 0x for hexadecimal, a leading 0
// for octal. NCCL reads "7x" as 7 and "x" as 0; here both are rejected.
Status parse_integer(const std::string& text, IntegerRange range, int* value);
// Reads 0 or 1. NCCL reads any other number as 1; here it is rejected.
// of_nccl: NCCL has the variable, too, whose own reading the reason then has.
Status parse_boolean(const std::string& text, bool of_nccl, bool* value);
// Reads "AF_INET" or "AF_INET6", in capitals, as NCCL does, into the constants of that name.
Status parse_family(const std::string& text, int* value);

// Returns "AF_INET", "AF_INET6" or, for AF_UNSPEC, "".
const char* family_name(int family);

// Returns the text fit for a log line: control characters and bytes beyond ASCII become '?', and
// what follows the first 128 characters becomes "...".
std::string printable(const std::string& text);
// The same, in double quotes.
std::string quoted(const std::string& text);

// Returns the Levenshtein distance: the least number of letters to insert, drop or change to make
// one text of the other.
size_t edit_distance(const std::string& a, const std::string& b);

}  // namespace gdr::config
