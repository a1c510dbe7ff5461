#include "tools/topo/gathered_folder.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "topology/sources/hwloc.h"
#include "topology/sources/sysfs.h"

namespace gdr::tools::topo {
namespace {

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

Result<topology::Machine> read_gathered(const std::string& folder,
                                        const topology::Selection& selection) {
  std::error_code unreadable;
  if (!std::filesystem::is_directory(std::filesystem::path(folder) / "sys" / "devices",
                                     unreadable)) {
    return fail(Code::kInvalidUsage,
                folder +
                    " is a folder without sys/devices: expected one that hwloc-gather-topology "
                    "packed, unpacked");
  }
  const VariableFor root("HWLOC_FSROOT", folder);
  Result<topology::Machine> machine = topology::hwloc_live(selection);
  if (!machine) {
    machine = topology::sysfs_machine(std::filesystem::path(folder) / "sys", selection);
  }
  return machine;
}

}  // namespace gdr::tools::topo
