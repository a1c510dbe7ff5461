#include "tools/net/contract.h"

namespace gdr::tools {
namespace {
// NCCL calls regMrDmaBuf only where ptrSupport has DMABUF (src/transport/net.cc), and getDeviceMr
// only for device offload.
constexpr EntryFacts kEntries[] = {
    {NetEntry::kInit, "init", 6, true},
    {NetEntry::kDevices, "devices", 6, true},
    {NetEntry::kGetProperties, "getProperties", 6, true},
    {NetEntry::kListen, "listen", 6, true},
    {NetEntry::kConnect, "connect", 6, true},
    {NetEntry::kAccept, "accept", 6, true},
    {NetEntry::kRegMr, "regMr", 6, true},
    {NetEntry::kRegMrDmaBuf, "regMrDmaBuf", 6, false},
    {NetEntry::kDeregMr, "deregMr", 6, true},
    {NetEntry::kIsend, "isend", 6, true},
    {NetEntry::kIrecv, "irecv", 6, true},
    {NetEntry::kIflush, "iflush", 6, true},
    {NetEntry::kTest, "test", 6, true},
    {NetEntry::kCloseSend, "closeSend", 6, true},
    {NetEntry::kCloseRecv, "closeRecv", 6, true},
    {NetEntry::kCloseListen, "closeListen", 6, true},
    {NetEntry::kGetDeviceMr, "getDeviceMr", 7, false},
    {NetEntry::kIrecvConsumed, "irecvConsumed", 7, false},
    {NetEntry::kMakeVDevice, "makeVDevice", 9, false},
    {NetEntry::kFinalize, "finalize", 11, true},
    {NetEntry::kSetNetAttr, "setNetAttr", 11, false},
};

constexpr bool versions_are_consecutive() {
  for (size_t i = 1; i < kContracts.size(); ++i) {
    if (kContracts[i].version != kContracts[i - 1].version + 1) return false;
  }
  return true;
}
static_assert(versions_are_consecutive(), "contract_of() computes the index from the version");
}  // namespace

std::span<const EntryFacts> net_entries() { return kEntries; }

}  // namespace gdr::tools
