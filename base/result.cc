#include "base/result.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <system_error>

namespace gdr {

tl::unexpected<Error> fail_errno(Code code, std::string text, int err) {
  text += ": " + std::generic_category().message(err) + " (errno " + std::to_string(err) + ")";
  return fail(code, std::move(text), err);
}

void add_detail(std::string* text, const std::string& detail) {
  text->insert(std::min(text->find(". Fix: "), text->size()), detail);
}

std::string hex(uint64_t value) {
  char text[19];
  std::snprintf(text, sizeof(text), "0x%" PRIx64, value);
  return text;
}

}  // namespace gdr
