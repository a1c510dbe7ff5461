#include "tests/unit/tools/doctor/facts/made_fabric.h"

namespace gdr::tools::doctor {
namespace {

// An InfiniBand port in these states.
auto infiniband_in(LinkState state, PhysState phys_state = PhysState::kLinkUp) {
  return [=](MadeFabric* made) {
    RdmaPort& port = made->add_infiniband();
    port.state = state;
    port.phys_state = phys_state;
  };
}

// RoCE ports of which those that are named are not active.
auto roce_down(size_t ports, std::vector<size_t> down) {
  return [=](MadeFabric* made) {
    for (size_t i = 0; i < ports; ++i) made->add_roce();
    for (size_t i : down) made->port(i).state = LinkState::kDown;
  };
}

// Two HCAs beside the rails of a machine with GPUs, one of which has that name and is not active.
auto beside_rails(const char* name, LinkState state) {
  return [=](MadeFabric* made) {
    made->add_infiniband();
    made->add_infiniband();
    made->add_rails();
    made->port(1).state = state;
    made->hca(1).name = name;
  };
}

// An HCA whose second port is down, as that of every other card of the model is, and what may show
// that the port is meant to be in use.
auto second_port_down(std::function<void(RdmaPort*)> change) {
  return [=](MadeFabric* made) {
    made->add_infiniband();
    Machine machine = topology::with_nvlink();
    for (Hca& hca : machine.hcas) {
      hca.ports.resize(1);
      hca.ports.push_back(hca.ports[0]);
      hca.ports[1].number = 2;
      hca.ports[1].state = Port::State::kDown;
    }
    made->host.inspection.emplace();
    made->host.inspection->decision = topology::scene_of(machine);
    RdmaPort second;
    second.number = 2;
    second.state = LinkState::kDown;
    second.phys_state = PhysState::kDisabled;
    second.link_layer = "InfiniBand";
    second.lid = 0;
    second.gids = {{{0, link_local_gid(1), transport::GidType::kIb}, ""}};
    change(&second);
    made->hca(0).ports.push_back(second);
  };
}

void set_up_link(RdmaPort* port) { port->phys_state = PhysState::kLinkUp; }
void set_lid(RdmaPort* port) { port->lid = 0x1a; }
void set_address(RdmaPort* port) { port->gids[0].entry.gid = ipv4_gid(0x0a0001ff); }

TEST(PortState, EachCase_HasItsVerdict) {
  expect_worst<MadeFabric>(
      "port-state",
      {{"active", roce_down(1, {}), Verdict::kOk},
       {"in Init", infiniband_in(LinkState::kInit), Verdict::kFailure, "mlx5_0:1",
        "state INIT, physical state LinkUp", "subnet manager"},
       {"disabled", infiniband_in(LinkState::kDown, PhysState::kDisabled), Verdict::kFailure, "",
        "", "ibportstate -C 'mlx5_0' -P 1 -D 0 1 enable"},
       {"interface that is not up",
        [](MadeFabric* made) {
          roce_down(1, {0})(made);
          made->netdev(0).is_up = false;
        },
        Verdict::kFailure, "", "", "", "ip link set dev 'eth0' up"},
       {"without carrier",
        [](MadeFabric* made) {
          roce_down(1, {0})(made);
          made->netdev(0).has_carrier = false;
        },
        Verdict::kFailure, "", "eth0 is up and has no carrier", "", ""},
       {"one down without GPUs", roce_down(2, {1}), Verdict::kWarning},
       {"all down without GPUs", roce_down(2, {0, 1}), Verdict::kFailure},
       {"rails", beside_rails("mlx5_1", LinkState::kActive), Verdict::kOk},
       {"rail that is down", beside_rails("mlx5_1", LinkState::kDown), Verdict::kFailure},
       {"excluded port that is down", beside_rails("mlx5_storage", LinkState::kDown), Verdict::kOk},
       {"second ports of all cards", second_port_down([](RdmaPort*) {}), Verdict::kOk},
       {"second port with the permissive LID",
        second_port_down([](RdmaPort* port) { port->lid = 0xffff; }), Verdict::kOk},
       {"second port that polls",
        second_port_down([](RdmaPort* port) { port->phys_state = PhysState::kPolling; }),
        Verdict::kOk},
       {"second port that is cabled", second_port_down(set_up_link), Verdict::kFailure, "mlx5_0:2"},
       {"second port that recovers",
        second_port_down([](RdmaPort* port) { port->phys_state = PhysState::kErrorRecovery; }),
        Verdict::kFailure},
       {"second port with a LID", second_port_down(set_lid), Verdict::kFailure},
       {"second port with an address", second_port_down(set_address), Verdict::kFailure},
       {"unknown", infiniband_in(LinkState::kUnknown), Verdict::kUnknown},
       {"no HCA", [](MadeFabric*) {}, Verdict::kNothing}});
}

// A file that shows the topology alone has no sign.
TEST(PortState, SecondPortInUse_IsAFindingWithTheSign) {
  const std::pair<void (*)(RdmaPort*), const char*> cases[] = {
      {set_up_link, "its link is up physically, and not active"},
      {set_lid, "it has the LID 0x1a"},
      {set_address, "it has the address 10.0.1.255"}};
  for (const auto& [change, sign] : cases) {
    MadeFabric made;
    second_port_down(change)(&made);
    judge_topology(&made.host);
    const Observations seen = findings_of(made.host, {FindingKind::kPortDown});
    ASSERT_EQ(seen.size(), 1u) << sign;
    EXPECT_EQ(seen[0].subject, "mlx5_0:2");
    EXPECT_THAT(seen[0].evidence, ::testing::HasSubstr(std::string("it is in use: ") + sign));
  }
}

}  // namespace
}  // namespace gdr::tools::doctor
