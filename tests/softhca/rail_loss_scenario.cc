#include "tests/softhca/rail_loss_scenario.h"

#include <algorithm>
#include <cmath>

namespace gdr::rail_loss {
namespace {

size_t log_uniform(Random& random, size_t least, size_t most) {
  std::uniform_real_distribution<double> exponent(std::log2(least), std::log2(most));
  return static_cast<size_t>(std::exp2(exponent(random)));
}

size_t message_bytes(Random& random, size_t largest) {
  const uint64_t dice = random() % 100;
  if (dice < 6) return 0;
  if (dice < 88) return log_uniform(random, 1, size_t{64} << 10);
  if (dice < 97) return log_uniform(random, size_t{64} << 10, std::min(largest, size_t{1} << 20));
  return log_uniform(random, std::min(largest, size_t{1} << 20) - 1, largest);
}

Group make_group(Random& random, size_t largest, Traffic& traffic) {
  Group group;
  const size_t count = random() % 2 == 0 ? 1 : 1 + random() % 8;
  for (size_t i = 0; i < count; ++i) {
    Part part{};
    part.tag = static_cast<int>(i * 7 + random() % 7);  // differs within the group
    part.bytes = message_bytes(random, count > 1 ? largest / 4 : largest);
    part.room = part.bytes + (random() % 2 == 0 ? 0 : random() % 5000);
    part.from = traffic.send_bytes + kGuard + random() % 128;
    part.to = traffic.receive_bytes + kGuard + random() % 128;
    part.number = static_cast<uint32_t>(traffic.messages++);
    traffic.send_bytes = part.from + part.bytes + kGuard;
    traffic.receive_bytes = part.to + part.room + kGuard;
    group.parts.push_back(part);
    group.send_order.push_back(i);
  }
  std::ranges::shuffle(group.send_order, random);
  return group;
}

Traffic make_traffic(Random& random, const Scenario& scenario) {
  Traffic traffic;
  const size_t largest = scenario.memory == MemoryKind::kHost ? size_t{8} << 20 : size_t{2} << 20;
  while (traffic.messages < scenario.messages) {
    traffic.groups.push_back(make_group(random, largest, traffic));
  }
  return traffic;
}

void choose_configuration(Random& random, Scenario* scenario) {
  scenario->merged = random() % 2 == 0 ? 2 : 0;
  const int oldest = scenario->merged != 0 ? 9 : 8;
  scenario->table = random() % 2 == 0 ? 12 : oldest + static_cast<int>(random() % (13 - oldest));
  scenario->queue_pairs = 1 + static_cast<int>(random() % 2);
  scenario->split = scenario->queue_pairs > 1 && random() % 2 == 0;
  scenario->adaptive = random() % 3 == 0;
  scenario->ethernet = random() % 3 == 0;
  const uint64_t dice = random() % 8;
  if (dice == 0) scenario->memory = MemoryKind::kPeermem;
  if (dice == 1) scenario->memory = MemoryKind::kDmaBuf;
  for (int& slow : scenario->slow_one_in) {
    if (random() % 3 == 0) slow = 5 + static_cast<int>(random() % 30);
  }
  if (random() % 8 == 0) scenario->socket_lost_at = static_cast<int>(random() % 60);
}

// Seeds that follow each other must differ in every choice.
Random random_of(uint64_t seed) {
  std::seed_seq spread{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 20u};
  return Random(spread);
}

}  // namespace

Scenario make_scenario(uint64_t seed) {
  Random random = random_of(seed);
  Scenario scenario;
  scenario.seed = seed;
  choose_configuration(random, &scenario);
  choose_faults(random, &scenario);
  // An end whose connection fails has no other way to report it while its comm is open.
  if (scenario.expect != Expect::kCompletes) scenario.socket_lost_at = -1;
  for (Traffic& traffic : scenario.traffic) traffic = make_traffic(random, scenario);
  return scenario;
}

Scenario read_scenario(const nlohmann::json& json) {
  Scenario scenario;
  json.at("seed").get_to(scenario.seed);
  json.at("rails").get_to(scenario.rails);
  json.at("merged").get_to(scenario.merged);
  json.at("messages").get_to(scenario.messages);
  json.at("slow_one_in").get_to(scenario.slow_one_in);
  if (json.at("gpu")) scenario.memory = MemoryKind::kDmaBuf;
  for (const auto& event : json.at("events")) {
    Fault& fault = scenario.faults.emplace_back();
    fault.end = event.at("end");
    fault.at_message = event.at("at_message");
    fault.json = event.at("fault");
  }
  Random random = random_of(scenario.seed);
  for (Traffic& traffic : scenario.traffic) traffic = make_traffic(random, scenario);
  return scenario;
}

nlohmann::json describe(const Scenario& scenario) {
  constexpr std::array<const char*, 3> kExpect{"completes", "may fail", "fails"};
  constexpr std::array<const char*, 3> kMemory{"host", "dmabuf", "peermem"};
  nlohmann::json faults = nlohmann::json::array();
  for (const Fault& fault : scenario.faults) {
    faults.push_back({{"end", fault.end},
                      {"at_message", fault.at_message},
                      {"after_pause", fault.after_pause},
                      {"fault", fault.json}});
  }
  return {{"seed", scenario.seed},
          {"kind", scenario.kind},
          {"expect", kExpect[static_cast<size_t>(scenario.expect)]},
          {"reasons", scenario.reasons},
          {"table", scenario.table},
          {"merged", scenario.merged},
          {"queue_pairs", scenario.queue_pairs},
          {"split", scenario.split},
          {"adaptive", scenario.adaptive},
          {"ethernet", scenario.ethernet},
          {"rate_gbps", scenario.rate_gbps},
          {"memory", kMemory[static_cast<size_t>(scenario.memory)]},
          {"pauses", scenario.pauses},
          {"socket_lost_at", scenario.socket_lost_at},
          {"slow_one_in", scenario.slow_one_in},
          {"faults", faults}};
}

}  // namespace gdr::rail_loss
