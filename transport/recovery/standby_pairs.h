// How the standby pairs of a connection give way to what others need.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/memory/memory_handle.h"
#include "transport/recovery/recovery_state.h"

namespace gdr::transport {

// What a connection gives up for others.
enum class Room : uint8_t {
  kNone,
  kAwaited,  // a queue pair, once the data path has finished with it
  kMade,     // a queue pair
};

// Called by any thread. See docs/several-rails.md, "Standby pairs that give way".
class StandbyPairs {
 public:
  explicit StandbyPairs(RecoveryState& state) : state_(state) {}

  // Gives up a standby pair that is usable, on that HCA or on any, and destroys its QP, and with
  // the last one all else that the rail has at this end: at once where the data path never used it
  // and NCCL has nothing outstanding here; if_busy, where NCCL has, once the ends have agreed on
  // the loss. Nothing where no active pair is usable.
  Room give_way(const HcaContext* hca, bool if_busy);
  // The queue pair of a flush is about to be made on the rail. Returns whether the rail has its
  // completion queue, which is not given back from here on.
  bool keep_queue(uint32_t rail);
  // What is registered on standby rails; it ends with the last QP on the rail that gives way.
  const std::shared_ptr<StandbyRegistrations>& registrations() const { return registrations_; }

 private:
  using Pair = RecoveryState::Pair;

  // With the mutex.
  bool is_active_usable() const;
  bool may_give_way(const Pair& pair, bool if_busy) const;
  bool is_unused(const Pair& pair) const;
  void give_back_rail(uint32_t rail, RecoveryLock& lock);
  bool is_rail_needed(uint32_t rail) const;

  RecoveryState& state_;
  const std::shared_ptr<StandbyRegistrations> registrations_ =
      std::make_shared<StandbyRegistrations>();
  uint32_t kept_queues_ = 0;  // bit per rail: see keep_queue(); with the mutex
};

}  // namespace gdr::transport
