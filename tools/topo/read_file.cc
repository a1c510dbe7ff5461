#include "tools/topo/read_file.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/finding.h"
#include "plugin/config/values.h"
#include "tools/sources/hwloc_xml.h"
#include "tools/sources/nvidia_smi.h"
#include "tools/topo/file_format.h"
#include "tools/topo/labels.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/nccl_xml.h"
#include "topology/sources/sysfs.h"

namespace gdr::tools::topo {
namespace {

// Returns the position of a host; -1: the text is not a number.
int host_number(const std::string& text) {
  int number = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

// The error about a --host that a file does not have; `hosts` are the names of those that it has,
// "" for one without a name.
std::string wrong_host_text(const std::string& file, const std::string& host,
                            const std::vector<std::string>& hosts) {
  std::string fix = "leave it out: the file describes one host";
  if (hosts.size() > 1) {
    std::string names;
    for (const std::string& one : hosts) {
      names += (names.empty() ? "" : ", ") + (one.empty() ? "one without a name" : one);
    }
    fix = "choose from its hosts: " + names + "; or a number from 0 to " +
          std::to_string(hosts.size() - 1);
  }
  return clean_text(to_string({FindingKind::kBadValue, Severity::kError, "--host",
                               config::quoted(host) + " is not in " + file, std::move(fix)}));
}

// Returns the machine of a host that is not the first.
Result<Machine> other_host(const std::string& file, const topology::Selection& selection,
                           const std::string& host) {
  Result<std::vector<Machine>> machines = topology::nccl_xml_hosts(file, selection);
  if (!machines) return forward_error(machines);
  std::vector<std::string> names;
  for (Machine& one : *machines) {
    const bool is_number = host_number(host) == static_cast<int>(names.size());
    if (is_number || one.host == host) return std::move(one);
    names.push_back(one.host);
  }
  return fail(Code::kInvalidUsage, wrong_host_text(file, host, names));
}

// Sets a variable of the environment for its lifetime.
class VariableFor {
 public:
  VariableFor(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~VariableFor() {
    if (before_.has_value()) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  VariableFor(const VariableFor&) = delete;
  VariableFor& operator=(const VariableFor&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

Result<Machine> read_file(const std::string& file, topology::Selection selection,
                          const std::optional<std::string>& host) {
  Result<FileFormat> format = file_format_of(file);
  if (!format) return forward_error(format);
  const bool is_first = host_number(host.value_or("0")) == 0;
  if (*format == FileFormat::kNccl) {
    return is_first ? topology::nccl_xml(file, selection) : other_host(file, selection, *host);
  }
  if (!is_first) return fail(Code::kInvalidUsage, wrong_host_text(file, *host, {""}));
  return *format == FileFormat::kHwloc ? topology::hwloc_xml(file, selection)
                                       : topology::nvidia_smi(file);
}

Result<Machine> read_gathered(const std::string& folder, const topology::Selection& selection) {
  std::error_code unreadable;
  if (!std::filesystem::is_directory(std::filesystem::path(folder) / "sys" / "devices",
                                     unreadable)) {
    return fail(Code::kInvalidUsage,
                folder +
                    " is a folder without sys/devices: expected one that hwloc-gather-topology "
                    "packed, unpacked");
  }
  const VariableFor root("HWLOC_FSROOT", folder);
  Result<Machine> machine = topology::hwloc_live(selection);
  if (!machine) {
    machine = topology::sysfs_machine(std::filesystem::path(folder) / "sys", selection);
  }
  return machine;
}

}  // namespace gdr::tools::topo
