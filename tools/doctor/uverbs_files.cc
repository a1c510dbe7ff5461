#include "tools/doctor/uverbs_files.h"

#include <algorithm>
#include <cerrno>

#include "tools/doctor/host.h"

namespace gdr::tools::doctor {

std::map<std::string, std::string> uverbs_by_device(const Host& host) {
  std::map<std::string, std::string> found;
  for (const std::string& name : host.names("/sys/class/infiniband_verbs")) {
    const std::string device = host.line("/sys/class/infiniband_verbs/" + name + "/ibdev");
    if (!device.empty()) found[device] = name;
  }
  return found;
}

const DeviceFile* uverbs_file(const Host& host, const std::string& name) {
  if (!host.process.uverbs.has_value()) return nullptr;
  for (const DeviceFile& one : *host.process.uverbs) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

bool is_withheld(const Host& host, const std::string& name) {
  if (!host.process.uverbs.has_value()) return false;
  const DeviceFile* file = uverbs_file(host, name);
  const bool is_kept = file == nullptr ? is_in_container(host) : file->error == EPERM;
  const auto& files = *host.process.uverbs;
  return is_kept && std::any_of(files.begin(), files.end(),
                                [](const DeviceFile& one) { return one.error == 0; });
}

}  // namespace gdr::tools::doctor
