#include "transport/device/registration_paths.h"

namespace gdr::transport {
namespace {

bool* member(RegistrationPaths& ways, std::string_view name) {
  if (name == "dmabuf") return &ways.dmabuf;
  if (name == "peermem") return &ways.peermem;
  if (name == "staging") return &ways.staging;
  return nullptr;
}

}  // namespace

const char* name_of(RegistrationPath way) {
  switch (way) {
    case RegistrationPath::kDmaBuf:
      return "dma-buf";
    case RegistrationPath::kPeermem:
      return "nvidia-peermem";
    case RegistrationPath::kStaging:
      break;
  }
  return "staging";
}

Result<RegistrationPaths> RegistrationPaths::parse(std::string_view text) {
  RegistrationPaths ways{false, false, false};
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = text.find(',', begin);
    if (end == std::string_view::npos) end = text.size();
    std::string_view name = text.substr(begin, end - begin);
    bool* way = member(ways, name);
    if (way == nullptr) {
      return fail(Code::kInvalidArgument,
                  "'" + std::string(name) + "' is neither dmabuf, peermem nor staging");
    }
    *way = true;
    begin = end + 1;
  }
  return ways;
}

std::string RegistrationPaths::to_string() const {
  std::string text;
  if (dmabuf) text += ",dmabuf";
  if (peermem) text += ",peermem";
  if (staging) text += ",staging";
  return text.substr(1);
}

}  // namespace gdr::transport
