#include "base/result.h"

#include <algorithm>
#include <charconv>
#include <iterator>
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
  char text[2 + 16] = {'0', 'x'};
  const char* end = std::to_chars(text + 2, std::end(text), value, 16).ptr;
  return {text, static_cast<size_t>(end - text)};
}

}  // namespace gdr
