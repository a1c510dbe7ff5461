// How an end of a connection creates its rails, with what gives way for them.
#include <functional>
#include <utility>

#include "transport/data/connection_set_up.h"

namespace gdr::transport {
namespace {

// Leaves the standby pairs on the first rails without a QP. Returns whether any had one.
bool drop_standby_up_to(size_t rail, PairPlan* plan) {
  bool dropped = false;
  for (PairPlace& place : *plan) {
    if (!place.standby || place.rail > rail) continue;
    dropped = std::exchange(place.has_qp, false) || dropped;
  }
  return dropped;
}

}  // namespace

Result<RailTables> ConnectionSetUp::add_rails(const EndRails& rails, const PairPlan& plan,
                                              const RailSpec& each) {
  Status spare{};
  if (!rails.standby.empty()) {
    spare = end_.watcher->room().check_spare_memory(*rails[0].hca, *end_.options);
  }
  const bool offers = end_.offers_recovery;
  RailErrors missing;
  if (!spare) {
    end_.lacks = spare.error().sys_errno;
    for (size_t i = rails.active.size(); i < rails.size(); ++i) missing.emplace(i, spare.error());
    // Nor with the tables for recoveries, where there is one rail alone.
    end_.offers_recovery = offers && rails.active.size() > 1;
  }
  Result<RailTables> tables = make_rails(rails, plan, each, std::move(missing));
  if (!tables && !spare) {  // it may be that HCA alone which registers nothing
    end_.offers_recovery = offers;
    tables = make_rails(rails, plan, each, {});
  }
  return tables;
}

Status ConnectionSetUp::add_rail(const Device& device, const RailSpec& spec) {
  if (Status status = end_.rails.add(device, spec, *end_.options); !status) return status;
  const RailEnd& rail = end_.rails[end_.rails.size() - 1];
  for (const QueuePair& pair : rail.qps()) {
    StateChange change = to_init(device, pair.qp.get(), *end_.options);
    change.optional = end_.offers_recovery;
    changes_.add(std::move(change));
  }
  return {};
}

// Rails are made in their order, the active ones first, so that only standby pairs up to that rail
// can be in its way. What fails a connection is named by its first active rail: standby rails only
// take its place.
Result<RailTables> ConnectionSetUp::make_rails(const EndRails& rails, PairPlan plan,
                                               const RailSpec& each, RailErrors missing) {
  const size_t active = rails.active.size();
  // The sender decides how many pairs there are.
  if (end_.sends && !end_.offers_recovery) std::erase_if(plan, std::mem_fn(&PairPlace::standby));
  for (;;) {
    size_t failed = 0;
    const PairPlan places = plan_without(plan, active, rails.standby.size(), missing);
    Result<RailTables> made = try_rails(rails, places, each, &failed);
    if (made) {
      for (uint32_t i = 0; i < plan.size(); ++i) {
        if (places[i].rail != plan[i].rail) displaced_.push_back(i);
      }
      for (const auto& [rail, why] : missing) end_.warn_of_rail(rails[rail], rail >= active, why);
      return made;
    }
    const Error& why = made.error();
    end_.lacks = why.sys_errno;
    const bool lacks = failed < active && RoomMaker::is_shared_lack(why.sys_errno);
    if (lacks && drop_standby_up_to(failed, &plan)) continue;
    RoomMaker& room = end_.watcher->room();
    if (lacks && room.make_room(*rails[failed].hca, why, &end_.rooms)) continue;
    missing.emplace(failed, why);
    if (!end_.offers_recovery || missing.size() == rails.size()) {
      return tl::unexpected<Error>(missing.begin()->second);
    }
  }
}

Result<RailTables> ConnectionSetUp::try_rails(const EndRails& rails, const PairPlan& plan,
                                              RailSpec each, size_t* failed) {
  end_.rails = RailSet();
  changes_ = StateChanges();
  RailTables tables(plan.size(), end_.offers_recovery);
  PairPlan compact = plan;  // numbers only the rails that have a QP
  for (PairPlace& place : compact) place.rail = 0;
  for (uint32_t rail = 0; rail < rails.size(); ++rail) {
    each.qps = pairs_on_rail(plan, rail);
    if (each.qps == 0) continue;
    // Standby rails come last.
    if (rail >= rails.active.size() && each.standby_sends != 0) {
      each.depths.send = each.standby_sends;
    }
    for (size_t i = 0; i < plan.size(); ++i) {
      if (plan[i].rail == rail) compact[i].rail = static_cast<uint32_t>(end_.rails.size());
    }
    *failed = rail;
    Status made = add_rail(rails[rail], each);
    if (made) made = tables.add_rail(*rails[rail].hca);
    if (!made) return forward_error(made);
  }
  end_.rails.arrange(compact);
  for (uint32_t i = 0; i < plan.size(); ++i) {
    if (pairs_on_rail(plan, plan[i].rail) > 0) continue;
    end_.rails.pair(i).missing_port = to_string(rails[plan[i].rail]);
  }
  return tables;
}

}  // namespace gdr::transport
