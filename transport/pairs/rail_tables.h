// The tables that one end keeps for the other to write (wire::Tables), registered on every rail.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "transport/memory/registered_block.h"
#include "transport/pairs/rail_set.h"
#include "transport/pairs/rdma_write.h"

namespace gdr::transport {

class RailTables {
 public:
  // Allocates zeroed tables and registers them on each rail, without relaxed ordering: a slot's
  // last word must not become visible before the words in front of it. statements: with the scratch
  // of probes and the statements about the pairs, which only a connection that recovers pairs has;
  // they are the last part, and nothing refers to them otherwise. failed_rail: where one cannot
  // register them, its index.
  static Result<RailTables> create(const RailSet& rails, bool statements,
                                   size_t* failed_rail = nullptr);

  wire::Tables* operator->() const { return memory_.get(); }

  // Fills the address and the rkeys of what this end sends in kHello or kReply, after
  // RailSet::describe.
  void describe(wire::EndPoint* end) const;

  // Deregisters the tables on a rail over which nothing goes any more.
  void give_back(size_t rail) { registrations_[rail].reset(); }

  // The write that copies entries of these tables to the same position in the peer's, over `pair`.
  template <class Entry>
  RdmaWrite copy_to_peer(const Entry* entries, size_t count, const wire::EndPoint& peer,
                         const QueuePair& pair) const {
    const auto address = reinterpret_cast<uint64_t>(entries);
    const uint64_t offset = address - reinterpret_cast<uint64_t>(memory_.get());
    return RdmaWrite{.source = address,
                     .bytes = static_cast<uint32_t>(count * sizeof(Entry)),
                     .lkey = lkeys_[pair.rail],
                     .target = peer.tables_address + offset,
                     .rkey = pair.peer_tables_rkey,
                     .cpu_readable = true};
  }

 private:
  Pages<wire::Tables> memory_;
  std::array<uint32_t, wire::kMaxRails> lkeys_{};
  std::vector<verbs::UniqueMr> registrations_;  // by rail; destroyed before memory_
};

}  // namespace gdr::transport
