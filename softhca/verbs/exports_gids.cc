// The exported functions of libibverbs for the GID table. Their contracts are those of the manual
// pages of rdma-core (libibverbs/man).
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softhca/fabric/port_gids.h"
#include "softhca/fabric/process.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/device.h"

namespace softhca {

namespace {

// Returns 0, EINVAL for a port or index that does not exist, or ENODATA for an entry without a GID.
int find_gid(ibv_context* handle, uint32_t port, uint32_t index, GidEntry* found) {
  const Device& device = *Context::of(handle).device;
  if (int error = device.error(); error != 0) return error;
  if (port == 0 || port > device.config->ports) return EINVAL;
  std::optional<GidEntry> entry = read_gid(device.process->port(device.index, port), index);
  if (!entry) return EINVAL;
  *found = *entry;
  return found->valid() ? 0 : ENODATA;
}

ibv_gid_entry describe_gid(const GidEntry& gid, uint32_t port, uint32_t index) {
  ibv_gid_entry entry = {};
  entry.gid = gid.gid;
  entry.gid_index = index;
  entry.port_num = port;
  entry.gid_type = gid.type;
  return entry;
}

}  // namespace

}  // namespace softhca

extern "C" {

// An entry without a GID reads zero, as in rdma-core.
int ibv_query_gid(ibv_context* handle, uint8_t port, int index, ibv_gid* gid) {
  softhca::GidEntry entry;
  int rc = softhca::find_gid(handle, port, static_cast<uint32_t>(index), &entry);
  if (rc != 0 && rc != ENODATA) {
    errno = rc;
    return -1;
  }
  *gid = entry.gid;
  return 0;
}

int _ibv_query_gid_ex(ibv_context* handle, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                      uint32_t flags, size_t bytes) {
  if (flags != 0) return EINVAL;
  softhca::GidEntry found;
  if (int rc = softhca::find_gid(handle, port, index, &found); rc != 0) return rc;
  ibv_gid_entry full = softhca::describe_gid(found, port, index);
  memcpy(entry, &full, std::min(bytes, sizeof full));
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* handle, ibv_gid_entry* entries, size_t room,
                             uint32_t flags, size_t bytes) {
  if (flags != 0 || bytes < sizeof(ibv_gid_entry)) return -EINVAL;
  const softhca::Device& device = *softhca::Context::of(handle).device;
  if (int error = device.error(); error != 0) return -error;
  auto* out = reinterpret_cast<uint8_t*>(entries);
  size_t written = 0;
  for (uint32_t port = 1; port <= device.config->ports; ++port) {
    uint32_t index = 0;
    for (const auto& gid : softhca::read_gids(device.process->port(device.index, port))) {
      ibv_gid_entry full = softhca::describe_gid(gid, port, index++);
      if (!gid.valid()) continue;
      if (written == room) return -EINVAL;
      memcpy(out + written++ * bytes, &full, sizeof full);
    }
  }
  return static_cast<ssize_t>(written);
}

// Declared in rdma-core's driver.h (enum ibv_gid_type_sysfs): 0 is "IB/RoCE v1", 1 is "RoCE v2".
int ibv_query_gid_type(ibv_context* handle, uint8_t port, unsigned index, int* type) {
  softhca::GidEntry entry;
  if (int rc = softhca::find_gid(handle, port, index, &entry); rc != 0 && rc != ENODATA) {
    errno = rc;
    return -1;
  }
  *type = entry.type == IBV_GID_TYPE_ROCE_V2 ? 1 : 0;
  return 0;
}

}  // extern "C"
