#include "transport/device/gid_cache.h"

#include <cstring>
#include <optional>
#include <string>

namespace gdr::transport {
namespace {

// Unused entries of a table cannot be queried.
std::optional<GidEntry> query(const verbs::Api& api, ibv_context* context, int port, int index) {
  ibv_gid_entry found{};
  if (api.query_gid_ex(context, port, index, &found, 0, sizeof(found)) != 0) return {};
  GidEntry entry{.index = index, .type = static_cast<GidType>(found.gid_type)};
  std::memcpy(entry.gid.data(), found.gid.raw, entry.gid.size());
  return entry;
}

Result<GidEntry> select(const std::vector<GidEntry>& table, const PortState& state,
                        const GidPreference& preference) {
  return state.ethernet ? select_gid(table, preference) : select_infiniband_gid(table, preference);
}

}  // namespace

Result<GidEntry> GidCache::resolve(int port, const PortState& state,
                                   const GidPreference& preference) {
  std::lock_guard lock(mutex_);
  auto kept = tables_.find(port);
  if (kept != tables_.end() && kept->second.generation == generation_.load()) {
    Result<GidEntry> known = select(kept->second.entries, state, preference);
    if (known && is_unchanged(port, *known)) return known;
  }
  Result<GidEntry> chosen = select(read_again(port, state), state, preference);
  if (!chosen) {
    chosen.error().text = std::string(context_->device->name) + ":" + std::to_string(port) + ": " +
                          chosen.error().text;
  }
  return chosen;
}

std::optional<int> GidCache::find(int port, const PortState& state, const GidEntry& former) {
  std::lock_guard lock(mutex_);
  std::optional<int> found;
  for (const GidEntry& entry : read_again(port, state)) {
    if (entry.gid != former.gid || entry.type != former.type) continue;
    if (!found || entry.index == former.index) found = entry.index;
  }
  return found;
}

const std::vector<GidEntry>& GidCache::read_again(int port, const PortState& state) {
  // Taken first, so that an event during the reading makes the table stale.
  const uint64_t generation = generation_.load();
  return tables_.insert_or_assign(port, Table{generation, read(port, state)}).first->second.entries;
}

std::vector<GidEntry> GidCache::read(int port, const PortState& state) const {
  std::vector<GidEntry> entries;
  for (int index = 0; index < state.gid_table_length; ++index) {
    if (const auto entry = query(api_, context_, port, index)) entries.push_back(*entry);
  }
  return entries;
}

bool GidCache::is_unchanged(int port, const GidEntry& known) const {
  const auto present = query(api_, context_, port, known.index);
  return present && present->gid == known.gid && present->type == known.type;
}

}  // namespace gdr::transport
