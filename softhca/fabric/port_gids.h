// The GID table of a port in shared memory. Its owner changes it, and every process may read it.
#pragma once

#include <optional>
#include <vector>

#include "softhca/fabric/shared_layout.h"

namespace softhca {

// Returns the whole table. Entries without a GID are not valid().
std::vector<GidEntry> read_gids(const SharedPort& port);
// Returns one entry, none when the index is beyond the table.
std::optional<GidEntry> read_gid(const SharedPort& port, uint32_t index);
// Returns true when the table has the GID.
bool has_gid(const SharedPort& port, const ibv_gid& gid);
// Replaces one entry, whose index is within the table. A GID of zeros removes it.
void write_gid(SharedPort& port, uint32_t index, const GidEntry& entry);

}  // namespace softhca
