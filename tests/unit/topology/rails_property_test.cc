// Invariants of the rails of any machine, checked on 2,000 random ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/unit/topology/random_tree.h"
#include "topology/distance.h"
#include "topology/rail_candidates.h"
#include "topology/rails.h"

namespace gdr::topology {
namespace {

constexpr int kRandomMachines = 600;

struct Planned {
  explicit Planned(Machine given) : machine(std::move(given)), paths((sort(&machine), machine)) {
    plan = *plan_rails(machine, paths, {});
  }
  PathClass path(size_t gpu, int rail) const {
    return paths.gpu_hca(gpu, static_cast<size_t>(plan.rails[rail].port.hca));
  }
  Distance distance(size_t gpu, int rail) const {
    return distance_between(machine, paths, gpu, plan.rails[rail].port.hca);
  }
  // The rails of the least class.
  std::vector<int> nearest(size_t gpu) const {
    std::vector<int> all;
    for (size_t i = 0; i < plan.rails.size(); ++i) {
      const int rail = static_cast<int>(i);
      if (!all.empty() && path(gpu, rail) < path(gpu, all[0])) all.clear();
      if (all.empty() || path(gpu, rail) == path(gpu, all[0])) all.push_back(rail);
    }
    return all;
  }
  // Everything that was decided, by names, so that two plans can be compared.
  std::string text() const {
    std::string all;
    for (const Rail& rail : plan.rails) {
      all += std::to_string(rail.id) + "=" + port_label(machine, rail.port) + rail.why_not + "\n";
    }
    for (const ExcludedPort& other : plan.excluded) {
      all += port_label(machine, other.port) + " " + other.reason + "\n";
    }
    for (size_t gpu = 0; gpu < plan.gpus.size(); ++gpu) {
      all += machine.gpus[gpu].bdf.to_string();
      for (int rail : plan.gpus[gpu].rails) all += " " + std::to_string(rail);
      all += "\n";
    }
    return all;
  }

  Machine machine;
  PathTable paths;
  RailPlan plan;
};

template <class Check>
void for_many_machines(Check check) {
  for (unsigned seed = 0; seed < kRandomMachines; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomTree random(seed);
    check(random.machine(), seed);
    if (::testing::Test::HasFatalFailure() || ::testing::Test::HasNonfatalFailure()) return;
  }
}

TEST(RailsOfAnyMachine, UsableRailOfAGpu_IsAmongTheNearest) {
  for_many_machines([](const Machine& machine, unsigned) {
    Planned planned(machine);
    std::vector<int> usable;
    for (size_t i = 0; i < planned.plan.rails.size(); ++i) {
      if (planned.plan.rails[i].usable) usable.push_back(static_cast<int>(i));
    }
    for (size_t gpu = 0; gpu < planned.machine.gpus.size(); ++gpu) {
      EXPECT_EQ(planned.plan.gpus[gpu].rails.empty(), usable.empty());
      for (int own : planned.plan.gpus[gpu].rails) {
        EXPECT_TRUE(planned.plan.rails[own].usable);
        for (int other : usable) EXPECT_LE(planned.path(gpu, own), planned.path(gpu, other));
      }
    }
  });
}

Machine with_all_ports_up(Machine machine) {
  for (Hca& hca : machine.hcas) {
    for (Port& port : hca.ports) port.state = Port::State::kActive;
  }
  return machine;
}

// No GPU could lower the load of its rail by moving to another one at the same distance.
TEST(RailsOfAnyMachine, LoadOfEquallyNearRails_DiffersByOneAtMost) {
  for_many_machines([](const Machine& machine, unsigned) {
    Planned planned(with_all_ports_up(machine));
    std::vector<int> load(planned.plan.rails.size(), 0);
    for (const GpuRails& gpu : planned.plan.gpus) {
      for (int rail : gpu.rails) ++load[rail];
    }
    for (size_t gpu = 0; gpu < planned.machine.gpus.size(); ++gpu) {
      for (int own : planned.plan.gpus[gpu].rails) {
        for (size_t other = 0; other < load.size(); ++other) {
          bool as_near = planned.plan.rails[other].usable &&
                         planned.path(gpu, static_cast<int>(other)) == planned.path(gpu, own);
          if (as_near) {
            EXPECT_LE(load[own], load[other] + 1);
          }
        }
      }
    }
  });
}

// No two GPUs of one class of rails could exchange rails so that both come nearer, or one does and
// the other stays as near.
TEST(RailsOfAnyMachine, ExchangeOfRails_BringsNoTwoGpusNearer) {
  for_many_machines([](const Machine& machine, unsigned) {
    Planned planned(with_all_ports_up(machine));
    for (size_t a = 0; a < planned.plan.gpus.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const std::vector<int>&of_a = planned.plan.gpus[a].rails,
              &of_b = planned.plan.gpus[b].rails;
        if (planned.nearest(a) != planned.nearest(b)) continue;
        for (int one : of_a) {
          for (int other : of_b) {
            const Distance before[] = {planned.distance(a, one), planned.distance(b, other)};
            const Distance after[] = {planned.distance(a, other), planned.distance(b, one)};
            const bool better = after[0] <= before[0] && after[1] <= before[1] &&
                                (after[0] < before[0] || after[1] < before[1]);
            EXPECT_FALSE(better) << "GPU" << a << " rail " << one << ", GPU" << b << " rail "
                                 << other;
          }
        }
      }
    }
  });
}

// The ports of each GPU's least class among `ports`.
std::vector<PortRef> nearest_of(const Planned& planned, size_t gpu,
                                const std::vector<PortRef>& ports) {
  std::vector<PortRef> nearest;
  for (const PortRef& port : ports) {
    const PathClass path = planned.paths.gpu_hca(gpu, port.hca);
    const PathClass least =
        nearest.empty() ? path : planned.paths.gpu_hca(gpu, nearest.front().hca);
    if (path < least) nearest.clear();
    if (path <= least) nearest.push_back(port);
  }
  return nearest;
}

// The number of GPUs that have each port among their nearest.
std::map<PortRef, int> users_of(const Planned& planned, const std::vector<PortRef>& ports) {
  std::map<PortRef, int> users;
  for (size_t gpu = 0; gpu < planned.machine.gpus.size(); ++gpu) {
    for (const PortRef& port : nearest_of(planned, gpu, ports)) ++users[port];
  }
  return users;
}

// What a GPU has of these ports, in Mb/s.
double bandwidth_of(const Planned& planned, const std::vector<PortRef>& ports,
                    const std::map<PortRef, int>& users) {
  double sum = 0;
  for (const PortRef& port : ports) {
    sum += static_cast<double>(port_of(planned.machine, port).speed_mbps) / users.at(port);
  }
  return sum;
}

// Slow ports are excluded only where every GPU that they are nearest to has at least as much
// without them, and four times as much where it has to go farther.
TEST(RailsOfAnyMachine, GpuOfASlowPort_KeepsItsBandwidthWithoutIt) {
  int near = 0, far = 0;
  for_many_machines([&](const Machine& machine, unsigned) {
    Planned planned(with_all_ports_up(machine));
    std::vector<PortRef> all, kept;
    for (const RailCandidate& port : all_ports(planned.machine, {})) all.push_back(port.ref);
    kept = all;
    for (const ExcludedPort& port : planned.plan.excluded) {
      if (port.reason.starts_with("slow")) std::erase(kept, port.port);
    }
    if (kept.size() == all.size()) return;
    const std::map<PortRef, int> users = users_of(planned, all), left = users_of(planned, kept);
    for (size_t gpu = 0; gpu < planned.machine.gpus.size(); ++gpu) {
      const std::vector<PortRef> before = nearest_of(planned, gpu, all);
      const std::vector<PortRef> after = nearest_of(planned, gpu, kept);
      std::vector<PortRef> lost = before;
      std::erase_if(lost, [&](const PortRef& port) {
        return std::find(kept.begin(), kept.end(), port) != kept.end();
      });
      if (lost.empty()) continue;
      ASSERT_FALSE(after.empty());
      const bool as_near =
          planned.paths.gpu_hca(gpu, after[0].hca) == planned.paths.gpu_hca(gpu, before[0].hca);
      ++(as_near ? near : far);
      EXPECT_GE(bandwidth_of(planned, after, left) * 1.001,
                bandwidth_of(planned, lost, users) * (as_near ? 1 : 4))
          << "GPU" << gpu;
    }
  });
  EXPECT_GT(near, 100);
  EXPECT_GT(far, 100);
}

TEST(RailsOfAnyMachine, PortsOfOneSpeed_AreNeverSlow) {
  for_many_machines([](Machine machine, unsigned) {
    for (Hca& hca : machine.hcas) {
      for (Port& port : hca.ports) port.speed_mbps = 100000;
    }
    for (const ExcludedPort& port : Planned(machine).plan.excluded) {
      EXPECT_FALSE(port.reason.starts_with("slow")) << port.reason;
    }
  });
}

TEST(RailsOfAnyMachine, OrderOfListing_ChangesNothing) {
  for_many_machines([](const Machine& machine, unsigned seed) {
    Machine shuffled = machine;
    std::mt19937 random(seed + 1);
    // Switches, NUMA nodes and host bridges are indexed: their order is the source's business, and
    // sort() has its own tests.
    std::shuffle(shuffled.gpus.begin(), shuffled.gpus.end(), random);
    std::shuffle(shuffled.hcas.begin(), shuffled.hcas.end(), random);
    for (Hca& hca : shuffled.hcas) std::reverse(hca.ports.begin(), hca.ports.end());
    EXPECT_EQ(Planned(machine).text(), Planned(shuffled).text());
  });
}

TEST(RailsOfAnyMachine, EveryPort_IsARailOrExcludedWithAReason) {
  for_many_machines([](const Machine& machine, unsigned) {
    Planned planned(machine);
    std::set<PortRef> seen;
    size_t ports = 0;
    for (const Hca& hca : planned.machine.hcas) ports += hca.ports.size();
    for (const Rail& rail : planned.plan.rails) {
      EXPECT_TRUE(seen.insert(rail.port).second);
      EXPECT_EQ(rail.usable, rail.why_not.empty());
    }
    for (const ExcludedPort& other : planned.plan.excluded) {
      EXPECT_TRUE(seen.insert(other.port).second);
      EXPECT_FALSE(other.reason.empty());
    }
    EXPECT_EQ(seen.size(), ports);
  });
}

// A link that is down on one machine must neither renumber the other rails nor move a GPU that has
// a usable rail left.
TEST(RailsOfAnyMachine, PortDown_MovesOnlyGpusWithoutAnotherRail) {
  for_many_machines([](const Machine& machine, unsigned seed) {
    std::mt19937 random(seed + 2);
    Machine up = with_all_ports_up(machine), some_down;
    for (Hca& hca : up.hcas) {
      for (Port& port : hca.ports) port.speed_mbps = 400000;
    }
    some_down = up;
    for (Hca& hca : some_down.hcas) {
      for (Port& port : hca.ports) {
        if (random() % 4 == 0) port.state = Port::State::kDown;
      }
    }
    Planned before(up), after(some_down);
    ASSERT_EQ(before.plan.rails.size(), after.plan.rails.size());
    for (size_t i = 0; i < before.plan.rails.size(); ++i) {
      EXPECT_EQ(before.plan.rails[i].id, after.plan.rails[i].id);
      EXPECT_EQ(before.plan.rails[i].port, after.plan.rails[i].port);
    }
    for (size_t gpu = 0; gpu < before.plan.gpus.size(); ++gpu) {
      std::vector<int> left = before.plan.gpus[gpu].rails;
      std::erase_if(left, [&](int rail) { return !after.plan.rails[rail].usable; });
      if (!left.empty()) {
        EXPECT_EQ(after.plan.gpus[gpu].rails, left);
      }
    }
  });
}

}  // namespace
}  // namespace gdr::topology
