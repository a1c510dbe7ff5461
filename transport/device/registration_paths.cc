#include "transport/device/registration_paths.h"

namespace gdr::transport {
namespace {

bool* member(RegistrationPaths& paths, std::string_view name) {
  if (name == "dmabuf") return &paths.dmabuf;
  if (name == "peermem") return &paths.peermem;
  if (name == "staging") return &paths.staging;
  return nullptr;
}

}  // namespace

const char* name_of(RegistrationPath path) {
  switch (path) {
    case RegistrationPath::kDmaBuf:
      return "dma-buf";
    case RegistrationPath::kPeermem:
      return "nvidia-peermem";
    case RegistrationPath::kStaged:
      break;
  }
  return "staging";
}

bool RegistrationPaths::includes(RegistrationPath path) const {
  switch (path) {
    case RegistrationPath::kDmaBuf:
      return dmabuf;
    case RegistrationPath::kPeermem:
      return peermem;
    case RegistrationPath::kStaged:
      break;
  }
  return staging;
}

Result<RegistrationPaths> RegistrationPaths::parse(std::string_view text) {
  RegistrationPaths paths{false, false, false};
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = text.find(',', begin);
    if (end == std::string_view::npos) end = text.size();
    std::string_view name = text.substr(begin, end - begin);
    bool* allowed = member(paths, name);
    if (allowed == nullptr) {
      return fail(Code::kInvalidArgument,
                  "'" + std::string(name) + "' is neither dmabuf, peermem nor staging");
    }
    *allowed = true;
    begin = end + 1;
  }
  return paths;
}

std::string RegistrationPaths::to_string() const {
  std::string text;
  if (dmabuf) text += ",dmabuf";
  if (peermem) text += ",peermem";
  if (staging) text += ",staging";
  return text.substr(1);
}

}  // namespace gdr::transport
