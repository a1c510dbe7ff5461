#include "tools/topo/port_use.h"

#include <charconv>
#include <fstream>

namespace gdr::tools::topo {
namespace {

namespace fs = std::filesystem;

std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// Whether a physical state says that there is a cable: "5: LinkUp" or "6: LinkErrorRecovery".
// Others are also those of ports without one: mlx5 shows each RoCE port without carrier as
// "3: Disabled", and an InfiniBand port without a cable is "2: Polling".
bool is_cabled(const std::string& phys_state) {
  return phys_state.starts_with("5:") || phys_state.starts_with("6:");
}

// "0x0" and "0xffff", the permissive LID, are those of a port that was not configured.
bool is_lid(const std::string& lid) {
  return lid.starts_with("0x") && lid != "0xffff" &&
         lid.find_first_not_of('0', 2) != std::string::npos;
}

// Returns the IPv4 address in a GID as sysfs writes it, "0000:0000:0000:0000:0000:ffff:0a00:0001";
// "" for another.
std::string mapped_address(const std::string& gid) {
  constexpr std::string_view kPrefix = "0000:0000:0000:0000:0000:ffff:";
  if (!gid.starts_with(kPrefix) || gid.size() != kPrefix.size() + 9) return "";
  const std::string digits = gid.substr(kPrefix.size(), 4) + gid.substr(kPrefix.size() + 5, 4);
  std::string address;
  for (size_t i = 0; i < digits.size(); i += 2) {
    int byte = 0;
    auto [stop, error] = std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    if (error != std::errc() || stop != digits.data() + i + 2) return "";
    address += (i == 0 ? "" : ".") + std::to_string(byte);
  }
  return address;
}

}  // namespace

std::string sign_of_use(const fs::path& sysfs_root, const std::string& hca, int port) {
  if (sysfs_root.empty() || hca.empty()) return "";
  const fs::path folder = sysfs_root / "class/infiniband" / hca / "ports" / std::to_string(port);
  if (is_cabled(line_of(folder / "phys_state"))) {
    return "its link is up physically, and not active";
  }
  const std::string lid = line_of(folder / "lid");
  if (is_lid(lid)) return "it has the LID " + lid;
  std::error_code failure;
  for (fs::directory_iterator it(folder / "gids", failure), end; !failure && it != end;
       it.increment(failure)) {
    const std::string address = mapped_address(line_of(it->path()));
    if (!address.empty()) return "it has the address " + address;
  }
  return "";
}

}  // namespace gdr::tools::topo
