#include "transport/device/registration_paths.h"

namespace gdr::transport {
namespace {

bool* member(RegistrationPaths& paths, std::string_view name) {
  if (name == "dmabuf") return &paths.dmabuf;
  if (name == "peermem") return &paths.peermem;
  return nullptr;
}

}  // namespace

const char* name_of(RegistrationPath path) {
  return path == RegistrationPath::kDmaBuf ? "dma-buf" : "nvidia-peermem";
}

bool RegistrationPaths::includes(RegistrationPath path) const {
  return path == RegistrationPath::kDmaBuf ? dmabuf : peermem;
}

Result<RegistrationPaths> RegistrationPaths::parse(std::string_view text) {
  RegistrationPaths paths{false, false};
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = text.find(',', begin);
    if (end == std::string_view::npos) end = text.size();
    std::string_view name = text.substr(begin, end - begin);
    bool* allowed = member(paths, name);
    if (allowed == nullptr) {
      return fail(Code::kInvalidArgument,
                  "'" + std::string(name) + "' is neither dmabuf nor peermem");
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
  return text.substr(1);
}

}  // namespace gdr::transport
