#include "tools/ranks/control_frame.h"

#include <cstring>

namespace gdr::tools {
namespace {
void append_length(std::string* out, size_t length) {
  auto value = static_cast<uint32_t>(length);
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}
}  // namespace

std::string make_frame(std::string_view payload) {
  std::string out;
  append_length(&out, payload.size());
  out.append(payload);
  return out;
}

std::string make_gathered(const std::vector<std::string>& parts) {
  std::string out(1, static_cast<char>(Answer::kGathered));
  for (const std::string& part : parts) {
    append_length(&out, part.size());
    out += part;
  }
  return out;
}

bool parse_gathered(std::string_view payload, size_t nranks, std::vector<std::string>* parts) {
  parts->clear();
  if (payload.empty() || payload[0] != static_cast<char>(Answer::kGathered)) return false;
  payload.remove_prefix(1);
  for (size_t i = 0; i < nranks; ++i) {
    uint32_t length = 0;
    if (payload.size() < sizeof(length)) return false;
    std::memcpy(&length, payload.data(), sizeof(length));
    payload.remove_prefix(sizeof(length));
    if (payload.size() < length) return false;
    parts->emplace_back(payload.substr(0, length));
    payload.remove_prefix(length);
  }
  return payload.empty();
}

}  // namespace gdr::tools
