// Which faults a run of rail_loss meets, and what may become of it.
#include <fmt/format.h>

#include <initializer_list>

#include "tests/softhca/rail_loss_scenario.h"

namespace gdr::rail_loss {
namespace {

using nlohmann::json;

// Of the errors with which a connection may end that loses both rails.
constexpr const char* kNoRail = "no rail is left";
constexpr const char* kDataLost = "data was lost in the receiver's HCA";

template <class T>
T one_of(Random& random, std::initializer_list<T> values) {
  return *(values.begin() + random() % values.size());
}

int up_to(Random& random, int most) {
  return static_cast<int>(random() % static_cast<uint64_t>(most + 1));
}

std::string name_of(int rail) { return fmt::format("rail{}", rail); }

// A fault that needs no request: at one, or when an end has completed so many messages.
Fault at_some_moment(Random& random, json fault) {
  Fault made;
  made.end = up_to(random, 1);
  made.rail = up_to(random, 1);
  fault["device"] = name_of(made.rail);
  made.json = std::move(fault);
  if (random() % 3 == 0) {
    made.at_message = up_to(random, 120);
    return made;
  }
  const auto opcode = one_of(random, {"any", "write", "write_with_imm"});
  made.json["at_request"] = {
      {"opcode", opcode},
      {"nth", 1 + up_to(random, opcode == std::string("write") ? 30 : 80)},
      {"end", one_of(random, {"requester", "responder"})},
      {"moment", one_of(random, {"begun", "arrived", "received", "acknowledged"})}};
  return made;
}

Fault port_down(Random& random) { return at_some_moment(random, {{"kind", "port_down"}}); }

Fault flap(Random& random) {
  return at_some_moment(random, {{"kind", "port_flap"},
                                 {"down_ms", 1 + up_to(random, 150)},
                                 {"up_ms", 1 + up_to(random, 100)},
                                 {"count", 1 + up_to(random, 2)}});
}

Fault device_lost(Random& random, const char* kind) {
  return at_some_moment(random, {{"kind", kind}, {"silent", random() % 2 == 0}});
}

Fault status_at_requester(Random& random) {
  const std::string status =
      one_of(random, {"RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "WR_FLUSH_ERR", "REM_OP_ERR",
                      "REM_ABORT_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR"});
  Fault made = at_some_moment(random, {{"kind", "completion_error"}, {"status", status}});
  made.at_message = -1;
  const auto moment = status == "REM_OP_ERR" ? one_of(random, {"begun", "arrived"})
                                             : one_of(random, {"begun", "arrived", "received"});
  made.json["at_request"] = {{"opcode", one_of(random, {"any", "write", "write_with_imm"})},
                             {"nth", 1 + up_to(random, 50)},
                             {"moment", moment}};
  return made;
}

Fault status_at_responder(Random& random) {
  const auto status =
      one_of(random, {"WR_FLUSH_ERR", "REM_ABORT_ERR", "FATAL_ERR", "GENERAL_ERR", "REM_OP_ERR"});
  Fault made = at_some_moment(random, {{"kind", "completion_error"}, {"status", status}});
  made.at_message = -1;
  made.json["at_request"] = {{"opcode", "write_with_imm"},
                             {"nth", 1 + up_to(random, 80)},
                             {"end", "responder"},
                             {"moment", one_of(random, {"begun", "arrived"})}};
  return made;
}

// An error of data that no other rail helps against. That of a probe or a statement loses its rail.
Fault protection_error(Random& random) {
  const auto status =
      one_of(random, {"LOC_PROT_ERR", "LOC_LEN_ERR", "REM_ACCESS_ERR", "REM_INV_REQ_ERR"});
  Fault made = status_at_requester(random);
  made.json["status"] = status;
  made.json["at_request"]["moment"] = "begun";
  made.json["at_request"]["opcode"] = "write_with_imm";
  return made;
}

// The end that is not the requester may have an event of its HCA before the requester's report,
// with the cause as well.
std::vector<std::string> reasons_of(const std::string& status) {
  if (status == "REM_ACCESS_ERR") return {status, "The peer wrote to memory"};
  if (status == "REM_INV_REQ_ERR") return {status, "What the peer sent is longer"};
  return {status};
}

Fault lost_acknowledgement(Random& random) {
  Fault made = at_some_moment(random, {{"kind", "ack_lost"}, {"count", up_to(random, 3)}});
  if (random() % 4 == 0) made.json["late_us"] = 20'000 + up_to(random, 100'000);
  if (made.json.contains("at_request")) made.json["at_request"]["end"] = "requester";
  return made;
}

// The flush of GPU memory reads over the port itself.
Fault lost_flush(Random& random, Scenario* scenario) {
  if (scenario->memory != MemoryKind::kDmaBuf) scenario->memory = MemoryKind::kDmaBuf;
  Fault made = random() % 2 == 0 ? port_down(random) : status_at_requester(random);
  made.at_message = -1;
  made.json["at_request"] = {{"opcode", "read"}, {"nth", 1 + up_to(random, 40)}};
  return made;
}

Fault refused_connection(Random& random) {
  Fault made;
  made.end = up_to(random, 1);
  made.rail = up_to(random, 1);
  made.json = {{"kind", "modify_qp_refused"},
               {"device", name_of(made.rail)},
               {"count", one_of(random, {0, 1, 2, 20})},
               {"to", one_of(random, {"INIT", "RTR", "RTS"})},
               {"errno", one_of(random, {22, 110, 113})}};
  return made;
}

// Before the first message, while the connections are made.
Fault during_connect(Random& random) {
  Fault made = random() % 2 == 0 ? port_down(random) : flap(random);
  made.json.erase("at_request");
  made.at_message = 0;
  return made;
}

Fault slowed(Random& random, Scenario* scenario) {
  scenario->rate_gbps = 40;
  return at_some_moment(random, {{"kind", "rate"}, {"share", one_of(random, {0.01, 0.1, 0.5})}});
}

// A second fault of the same rail, at either end.
void add_to_same_rail(Random& random, Scenario* scenario) {
  Fault second = random() % 2 == 0 ? port_down(random) : status_at_requester(random);
  second.rail = scenario->faults[0].rail;
  second.json["device"] = name_of(second.rail);
  scenario->faults.push_back(second);
}

// Near the first fault, where both count what they carry.
void add_to_other_rail(Random& random, Scenario* scenario) {
  Fault& first = scenario->faults[0];
  Fault second = random() % 2 == 0 ? port_down(random) : status_at_requester(random);
  second.rail = 1 - first.rail;
  second.json["device"] = name_of(second.rail);
  if (first.json.contains("at_request") && second.json.contains("at_request")) {
    const int nth = first.json["at_request"]["nth"];
    second.json["at_request"]["opcode"] = first.json["at_request"]["opcode"];
    second.json["at_request"]["nth"] = nth + up_to(random, 8);
  }
  scenario->faults.push_back(second);
  scenario->expect = Expect::kMayFail;
  scenario->reasons = {kNoRail, kDataLost};
}

// The rail returns, and the other one is lost later.
void lose_one_after_the_other(Random& random, Scenario* scenario) {
  Fault first = random() % 2 == 0 ? flap(random) : status_at_requester(random);
  if (first.json["kind"] == "port_flap") first.json["count"] = 1;
  if (first.at_message > 60) first.at_message /= 2;
  if (first.json.contains("at_request")) {
    const int nth = first.json["at_request"]["nth"];
    first.json["at_request"]["nth"] = 1 + nth / 5;  // in the first half
    if (scenario->merged == 0) {                    // a rail that stands by carries nothing
      first.rail = 0;
      first.json["device"] = name_of(0);
    }
  }
  Fault second = port_down(random);
  second.rail = 1 - first.rail;
  second.json["device"] = name_of(second.rail);
  second.at_message = up_to(random, 60);
  second.after_pause = true;
  if (second.json.contains("at_request")) {
    second.at_message = 0;
    second.json["at_request"]["nth"] = 1 + up_to(random, 30);
  }
  scenario->faults = {first, second};
  scenario->pauses = true;
  scenario->expect = Expect::kMayFail;
  scenario->reasons = {kNoRail};
}

void choose_single(Random& random, Scenario* scenario) {
  const auto set = [&](const char* kind, Fault fault) {
    scenario->kind = kind;
    scenario->faults = {std::move(fault)};
  };
  switch (random() % 12) {
    case 0:
    case 1:
      return set("port down", port_down(random));
    case 2:
      return set("port flaps", flap(random));
    case 3:
      return set("QP error", at_some_moment(random, {{"kind", "qp_error"}}));
    case 4:
      return set("status at the requester", status_at_requester(random));
    case 5:
      return set("status at the responder", status_at_responder(random));
    case 6:
      return set("acknowledgement lost", lost_acknowledgement(random));
    case 7:
      return set("device fatal", device_lost(random, "device_fatal"));
    case 8:
      return set("device removed", device_lost(random, "device_removed"));
    case 9:
      return set("rail slowed", slowed(random, scenario));
    case 10:
      return set("lost while connecting",
                 random() % 2 == 0 ? refused_connection(random) : during_connect(random));
    default:
      return set("lost at a flush", lost_flush(random, scenario));
  }
}

}  // namespace

void choose_faults(Random& random, Scenario* scenario) {
  const uint64_t dice = random() % 20;
  if (dice < 13) return choose_single(random, scenario);
  if (dice == 13) {
    scenario->kind = "no recovery possible";
    scenario->faults = {protection_error(random)};
    scenario->expect = Expect::kFails;
    scenario->reasons = reasons_of(scenario->faults[0].json["status"]);
    return;
  }
  if (dice >= 18) {
    scenario->kind = "rail returns, other lost";
    return lose_one_after_the_other(random, scenario);
  }
  choose_single(random, scenario);
  if (dice < 16) {
    scenario->kind = "second fault, same rail";
    return add_to_same_rail(random, scenario);
  }
  scenario->kind = "both rails";
  add_to_other_rail(random, scenario);
}

}  // namespace gdr::rail_loss
