#include "transport/watch/recovery_runner.h"

#include <algorithm>
#include <bit>
#include <exception>

namespace gdr::transport {

void RecoveryRunner::tick(Clock::time_point now, bool all) {
  const std::vector<std::shared_ptr<Recovery>> some = links_.recoveries();
  next_ = Clock::time_point::max();
  for (const auto& recovery : some) {
    if (all || recovery->steps().deadline() <= now)
      have_made(recovery, recovery->steps().on_tick(now));
    next_ = std::min(next_, recovery->steps().deadline());
  }
}

void RecoveryRunner::have_made(const std::shared_ptr<Recovery>& recovery,
                               RecoverySteps::Due due) try {
  for (; due.stops != 0; due.stops &= due.stops - 1) {
    const int rail = std::countr_zero(due.stops);
    BlockingCalls& stopper = stoppers_.try_emplace(due.hcas[rail], "gdr-stopper").first->second;
    stopper.add([recovery, rail] { recovery->steps().stop_pairs(1u << rail); });
  }
  for (; due.revives != 0; due.revives &= due.revives - 1) {
    const int rail = std::countr_zero(due.revives);
    BlockingCalls& reviver = revivers_.try_emplace(due.hcas[rail], "gdr-reviver").first->second;
    reviver.add([recovery, rail] { recovery->steps().revive_pairs(Clock::now(), 1u << rail); });
  }
} catch (const std::exception&) {
  recovery->steps().take_back(due);
  throw;
}

}  // namespace gdr::transport
