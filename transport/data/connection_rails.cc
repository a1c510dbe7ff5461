// How an end of a connection creates its rails, with what gives way for them.
#include <algorithm>
#include <optional>
#include <utility>

#include "transport/data/connection_set_up.h"

namespace gdr::transport {
namespace {

// Without standby pairs. The sender decides how many pairs there are, so that a receiver only has
// no QP for those.
PairPlan lean(PairPlan plan, bool sends) {
  if (sends) std::erase_if(plan, [](const PairPlace& place) { return place.standby; });
  for (PairPlace& place : plan) place.has_qp = place.has_qp && !place.standby;
  return plan;
}

}  // namespace

Result<RailTables> ConnectionSetUp::add_rails(const EndRails& rails, const PairPlan& plan,
                                              RailSpec* each, const QueueDepths& least) {
  Result<RailTables> tables = make_rails(rails, plan, each, least);
  if (tables) name_missing_ports(rails, plan);
  return tables;
}

void ConnectionSetUp::name_missing_ports(const EndRails& all, const PairPlan& plan) {
  end_.missing_ports.clear();
  for (uint32_t i = 0; i < end_.rails.pair_count(); ++i) {
    const QueuePair& pair = end_.rails.pair(i);
    if (pair.qp != nullptr) continue;
    const std::string port = to_string(all[plan[i].rail]);
    if (port != to_string(end_.rails[pair.rail].device())) end_.missing_ports.emplace(i, port);
  }
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

// What fails a connection is named by its first active rail: standby rails only take its place.
Result<RailTables> ConnectionSetUp::make_rails(const EndRails& rails, const PairPlan& plan,
                                               RailSpec* each, const QueueDepths& least) {
  const size_t active = rails.active.size();
  Status spare{};
  if (!rails.standby.empty()) {
    spare = end_.watcher->room().check_spare_memory(*rails[0].hca, *end_.options);
  }
  if (!spare) {
    // Nor with the tables for recoveries, where there is one rail alone.
    const bool offers = std::exchange(end_.offers_recovery, end_.offers_recovery && active > 1);
    Result<RailTables> made = make_lean(rails, plan, each, least, spare.error());
    if (made) return made;
    end_.offers_recovery = offers;  // it may be that HCA alone which registers nothing
  }
  std::vector<size_t> missing;
  std::vector<Error> reasons;  // of `missing`
  std::optional<Error> first_of_active;
  for (;;) {
    size_t failed = 0;
    const PairPlan places = plan_without(plan, active, rails.standby.size(), missing);
    Result<RailTables> added = try_rails(rails, places, *each, &failed);
    if (added) {
      for (uint32_t i = 0; i < plan.size(); ++i) {
        if (places[i].rail != plan[i].rail) displaced_.push_back(i);
      }
      for (size_t i = 0; i < missing.size(); ++i) {
        end_.warn_of_rail(rails[missing[i]], missing[i] >= active, reasons[i]);
      }
      return added;
    }
    const Error reason = added.error();
    end_.lacks = reason.sys_errno;
    if (failed < active && !first_of_active) {
      first_of_active = reason;
      const bool leaner = !rails.standby.empty() || least.send < each->depths.send ||
                          least.receive < each->depths.receive;
      if (RoomRequests::is_lack(end_.lacks) &&
          (leaner || end_.room.make_room(rails[failed], reason))) {
        Result<RailTables> made = make_lean(rails, plan, each, least, reason);
        if (made) return made;
      }
    }
    missing.push_back(failed);
    reasons.push_back(reason);
    if (!end_.offers_recovery || missing.size() == rails.size()) {
      return tl::unexpected<Error>(first_of_active.value_or(reason));
    }
  }
}

// Without standby rails, with the depths of a connection that has none, and with what the standby
// pairs of other connections give up for it.
Result<RailTables> ConnectionSetUp::make_lean(const EndRails& rails, const PairPlan& plan,
                                              RailSpec* each, const QueueDepths& least,
                                              const Error& lack) {
  const PairPlan places = lean(plan, end_.sends);
  RailSpec of_lean = *each;
  of_lean.depths = least;
  size_t failed = 0;
  Result<RailTables> added = try_rails(rails, places, of_lean, &failed);
  while (!added && end_.room.make_room(rails[failed], added.error())) {
    added = try_rails(rails, places, of_lean, &failed);
  }
  if (!added) return added;
  *each = of_lean;
  end_.lacks = lack.sys_errno;
  for (const Device& gone : rails.standby) end_.warn_of_rail(gone, true, lack);
  return added;
}

Result<RailTables> ConnectionSetUp::try_rails(const EndRails& rails, const PairPlan& plan,
                                              RailSpec each, size_t* failed) {
  end_.rails = RailSet();
  changes_ = StateChanges();
  PairPlan compact = plan;  // numbers only the rails that have a QP
  for (PairPlace& place : compact) place.rail = 0;
  std::vector<size_t> numbered;
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
    numbered.push_back(rail);
    if (Status status = add_rail(rails[rail], each); !status) return forward_error(status);
  }
  end_.rails.arrange(compact);
  size_t without_tables = 0;
  Result<RailTables> tables = RailTables::create(end_.rails, end_.offers_recovery, &without_tables);
  if (!tables) *failed = numbered[without_tables];
  return tables;
}

}  // namespace gdr::transport
