#include "transport/device/gid_cache.h"

#include <cstring>
#include <fstream>
#include <string>

namespace gdr::transport {
namespace {

// Reads a GID's type from sysfs, for libraries without ibv_query_gid_ex: their ibv_query_gid does
// not report it.
GidType gid_type_from_sysfs(ibv_context* context, int port, int index) {
  std::ifstream file(std::string(context->device->ibdev_path) + "/ports/" + std::to_string(port) +
                     "/gid_attrs/types/" + std::to_string(index));
  std::string text;
  std::getline(file, text);
  return text.find("v2") != std::string::npos ? GidType::kRoceV2 : GidType::kRoceV1;
}

GidType gid_type_of(uint32_t verbs_type) {
  switch (verbs_type) {
    case IBV_GID_TYPE_ROCE_V1:
      return GidType::kRoceV1;
    case IBV_GID_TYPE_ROCE_V2:
      return GidType::kRoceV2;
    default:
      return GidType::kIb;
  }
}

GidEntry entry_of(const ibv_gid_entry& found) {
  GidEntry entry;
  entry.index = static_cast<int>(found.gid_index);
  std::memcpy(entry.gid.data(), found.gid.raw, entry.gid.size());
  entry.type = gid_type_of(found.gid_type);
  return entry;
}

bool read_gid(const verbs::Api& api, ibv_context* context, int port, int index, GidEntry* entry) {
  if (api.query_gid_ex != nullptr) {
    ibv_gid_entry found{};
    if (api.query_gid_ex(context, port, index, &found, 0, sizeof(found)) != 0) return false;
    *entry = entry_of(found);
    entry->index = index;
    return true;
  }
  ibv_gid gid{};
  if (api.query_gid(context, static_cast<uint8_t>(port), index, &gid) != 0) return false;
  entry->index = index;
  std::memcpy(entry->gid.data(), gid.raw, entry->gid.size());
  entry->type = gid_type_from_sysfs(context, port, index);
  return true;
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
  if (read_whole(port, state, &entries)) return entries;
  for (int index = 0; index < state.gid_table_length; ++index) {
    GidEntry entry;
    if (read_gid(api_, context_, port, index, &entry)) entries.push_back(entry);
  }
  return entries;
}

// ibv_query_gid_table fills in the used entries of all ports, and fails without room for all.
bool GidCache::read_whole(int port, const PortState& state, std::vector<GidEntry>* entries) const {
  if (api_.query_gid_table == nullptr) return false;
  auto room = static_cast<size_t>(state.gid_table_length);
  for (int other = 1; other <= ports_; ++other) {
    ibv_port_attr attr{};
    if (other == port) continue;
    if (api_.query_port(context_, static_cast<uint8_t>(other), &attr) != 0) return false;
    room += static_cast<size_t>(attr.gid_tbl_len);
  }
  if (room == 0) return true;
  std::vector<ibv_gid_entry> found(room);
  ssize_t count = api_.query_gid_table(context_, found.data(), room, 0, sizeof(ibv_gid_entry));
  if (count < 0 || static_cast<size_t>(count) > room) return false;
  found.resize(static_cast<size_t>(count));
  for (const ibv_gid_entry& one : found) {
    if (one.port_num == static_cast<uint32_t>(port)) entries->push_back(entry_of(one));
  }
  return true;
}

bool GidCache::is_unchanged(int port, const GidEntry& known) const {
  GidEntry present;
  return read_gid(api_, context_, port, known.index, &present) && present.gid == known.gid &&
         present.type == known.type;
}

bool may_change_gids(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_DEVICE_FATAL:
      return true;
    default:
      return false;
  }
}

}  // namespace gdr::transport
