// How an end of a connection creates its rails, with what gives way for them.
#include <algorithm>
#include <utility>

#include "transport/data/connection_set_up.h"

namespace gdr::transport {
namespace {

// A rail that a connection is made without.
struct LeftOut {
  Device device;
  bool stands_by;
  Error why;
};

}  // namespace

Result<RailTables> ConnectionSetUp::add_rails(EndRails rails, const Planner& plan, RailSpec* each,
                                              const QueueDepths& least) {
  const EndRails all = rails;
  Result<RailTables> tables = make_rails(std::move(rails), plan, each, least);
  if (tables) name_missing_ports(all, plan);
  return tables;
}

// By the plan of all rails: where those that stand by are left out, a pair has another one.
void ConnectionSetUp::name_missing_ports(const EndRails& all, const Planner& plan) {
  const PairPlan intended = plan(all, /*lean=*/false);
  end_.missing_ports.clear();
  for (uint32_t i = 0; i < std::min(end_.rails.pair_count(), intended.size()); ++i) {
    const QueuePair& pair = end_.rails.pair(i);
    if (pair.qp != nullptr) continue;
    const std::string port = to_string(all[intended[i].rail]);
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
Result<RailTables> ConnectionSetUp::make_rails(EndRails rails, const Planner& plan, RailSpec* each,
                                               const QueueDepths& least) {
  std::vector<size_t> missing;
  std::vector<LeftOut> left_out;
  Status spare{};
  const bool has_standby = !rails.standby.empty();  // although all of them may be left out below
  if (has_standby) {
    spare = end_.watcher->room().check_spare_memory(*rails[0].hca, *end_.options);
  }
  if (!spare) {
    // Nor with the tables for recoveries, where there is one rail alone.
    const bool offers =
        std::exchange(end_.offers_recovery, end_.offers_recovery && rails.active.size() > 1);
    Result<RailTables> lean = make_lean(rails, plan, each, least, spare.error());
    if (lean) return lean;
    end_.offers_recovery = offers;  // it may be that HCA alone which registers nothing
  }
  const auto warn_of_rails = [this](const std::vector<LeftOut>& all) {
    for (const LeftOut& one : all) end_.warn_of_rail(one.device, one.stands_by, one.why);
  };
  for (;;) {
    size_t failed = 0;
    const size_t active = rails.active.size();
    // What standby rails lack, their pairs do not take of active ones instead.
    const bool spares_active =
        has_standby && rails.standby.empty() && RoomRequests::is_shared_lack(end_.lacks);
    const PairPlan intended = plan(rails, /*lean=*/spares_active);
    const PairPlan places = plan_without(intended, active, rails.standby.size(), missing);
    Result<RailTables> added = try_rails(rails, places, *each, &failed);
    for (uint32_t i = 0; added && i < places.size(); ++i) {
      if (places[i] != intended[i]) displaced_.push_back(i);
    }
    if (added) {
      warn_of_rails(left_out);
      return added;
    }
    end_.lacks = added.error().sys_errno;
    const bool leaner =
        has_standby || least.send < each->depths.send || least.receive < each->depths.receive;
    const bool first_lack = failed < active && missing.empty() && RoomRequests::is_lack(end_.lacks);
    if (first_lack && (leaner || end_.room.make_room(rails[failed], added.error()))) {
      Result<RailTables> lean = make_lean(rails, plan, each, least, added.error());
      if (lean) warn_of_rails(left_out);
      if (lean) return lean;
    }
    left_out.push_back({rails[failed], failed >= active, added.error()});
    if (!end_.offers_recovery || rails.size() - missing.size() == 1) {
      const auto first = std::ranges::find(left_out, false, &LeftOut::stands_by);
      return tl::unexpected<Error>(first == left_out.end() ? added.error() : first->why);
    }
    if (failed < active) {
      missing.push_back(failed);
    } else {
      rails.standby.erase(rails.standby.begin() + static_cast<ptrdiff_t>(failed - active));
    }
  }
}

// Without standby rails, with the depths of a connection that has none, and with what the standby
// pairs of other connections give up for it.
Result<RailTables> ConnectionSetUp::make_lean(const EndRails& rails, const Planner& plan,
                                              RailSpec* each, const QueueDepths& least,
                                              const Error& lack) {
  const EndRails lean{rails.active, {}};
  RailSpec of_lean = *each;
  of_lean.depths = least;
  size_t failed = 0;
  Result<RailTables> added = try_rails(lean, plan(lean, /*lean=*/true), of_lean, &failed);
  while (!added && end_.room.make_room(lean[failed], added.error())) {
    added = try_rails(lean, plan(lean, /*lean=*/true), of_lean, &failed);
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
