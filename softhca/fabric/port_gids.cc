#include "softhca/fabric/port_gids.h"

#include <algorithm>

namespace softhca {

std::vector<GidEntry> read_gids(const SharedPort& port) {
  SharedLock lock(port.gids_mutex);
  return {port.gids, port.gids + port.gid_count};
}

std::optional<GidEntry> read_gid(const SharedPort& port, uint32_t index) {
  SharedLock lock(port.gids_mutex);
  if (index >= port.gid_count) return std::nullopt;
  return port.gids[index];
}

bool has_gid(const SharedPort& port, const ibv_gid& gid) {
  SharedLock lock(port.gids_mutex);
  return std::any_of(port.gids, port.gids + port.gid_count, [&](const GidEntry& entry) {
    return entry.valid() && same_gid(entry.gid, gid);
  });
}

void write_gid(SharedPort& port, uint32_t index, const GidEntry& entry) {
  SharedLock lock(port.gids_mutex);
  port.gids[index] = entry;
}

}  // namespace softhca
