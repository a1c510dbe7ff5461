#include "tests/unit/tools/doctor/facts/made_fabric.h"

namespace gdr::tools::doctor {
namespace {

// A RoCE port that has the first GIDs of the usual four alone.
auto gids(size_t count) {
  return [count](MadeFabric* made) { made->add_roce().gids.resize(count); };
}

// A RoCE port with a variable of the environment.
auto roce_with(const char* name, const char* value) {
  return [=](MadeFabric* made) {
    made->add_roce();
    made->host.environment[name] = value;
  };
}

transport::Gid global_ipv6() {
  transport::Gid gid = link_local_gid(9);
  gid[0] = 0xfd;
  gid[1] = 0;
  return gid;
}

auto ipv6_alone(const char* family) {
  return [family](MadeFabric* made) {
    gids(2)(made);
    made->port(0).gids.push_back({{4, global_ipv6(), transport::GidType::kRoceV2}, "eth0"});
    if (*family != 0) made->host.environment["NCCL_IB_ADDR_FAMILY"] = family;
  };
}

// A port in use beside one without an address.
auto unused_port(bool has_gpus) {
  return [has_gpus](MadeFabric* made) {
    made->add_roce();
    gids(2)(made);
    if (has_gpus) made->add_rails();
  };
}

TEST(RoceGids, EachCase_HasItsVerdict) {
  expect_worst<MadeFabric>(
      "roce-gids",
      {{"IPv4 of version 2", gids(4), Verdict::kOk, "",
        "GID index 3 ::ffff:10.0.0.1 (RoCE v2, eth0)"},
       {"no address", gids(2), Verdict::kWarning, "", "link-local",
        "ip addr add ADDRESS/PREFIX dev 'eth0'"},
       {"unused port", unused_port(false), Verdict::kOk},
       {"unused port of a machine with GPUs", unused_port(true), Verdict::kWarning},
       {"version 1, link-local", gids(1), Verdict::kWarning},
       {"one address on two ports",
        [](MadeFabric* made) {
          made->add_roce();
          made->add_roce().gids = made->port(0).gids;
        },
        Verdict::kWarning, "mlx5_0:1, mlx5_1:1",
        "the ports have one GID, ::ffff:10.0.0.1:", "give each port an address of its own"},
       {"iWARP",
        [](MadeFabric* made) {
          gids(1)(made);
          made->hca(0).node_type = "4: RNIC";
        },
        Verdict::kNothing},
       {"excluded by the user",
        [](MadeFabric* made) {
          gids(1)(made);
          made->host.inspection.emplace();
          made->host.inspection->not_offered = {
              {FindingKind::kHcaExcluded, "mlx5_0:1", "is excluded by NCCL_IB_HCA"}};
        },
        Verdict::kNothing},
       {"version 1 alone",
        [](MadeFabric* made) {
          std::erase_if(made->add_roce().gids, [](const RdmaGid& one) {
            return one.entry.type == transport::GidType::kRoceV2;
          });
        },
        Verdict::kWarning, "", "RoCE v1 is not routed"},
       {"IPv6 alone", ipv6_alone(""), Verdict::kWarning, "", "",
        "export NCCL_IB_ADDR_FAMILY=AF_INET6"},
       {"IPv6 that is asked for", ipv6_alone("AF_INET6"), Verdict::kOk},
       {"index that does not exist", roce_with("NCCL_IB_GID_INDEX", "7"), Verdict::kFailure, "",
        "NCCL_IB_GID_INDEX is 7", "unset it"},
       {"index of version 1", roce_with("NCCL_IB_GID_INDEX", "2"), Verdict::kWarning, "", "",
        "unset NCCL_IB_GID_INDEX"},
       {"index in a file",
        [](MadeFabric* made) {
          roce_with("NCCL_IB_GID_INDEX", "2")(made);
          made->host.conf_places["NCCL_IB_GID_INDEX"] = {"/etc/nccl.conf", 4};
        },
        Verdict::kWarning, "", "", "remove line 4 of /etc/nccl.conf"},
       {"index of version 2", roce_with("NCCL_IB_GID_INDEX", "3"), Verdict::kOk},
       {"index of two families",
        [](MadeFabric* made) {
          roce_with("NCCL_IB_GID_INDEX", "3")(made);
          made->add_roce().gids[3].entry.gid = global_ipv6();
        },
        Verdict::kWarning, "", "IPv4 address on mlx5_0:1"},
       {"no GID", gids(0), Verdict::kFailure},
       {"InfiniBand alone", [](MadeFabric* made) { made->add_infiniband(); }, Verdict::kNothing}});
}

// Two RoCE ports in 10.0.0.0/24, with these settings of both.
auto shared(int ignore, int announce, int rp_filter) {
  return [=](MadeFabric* made) {
    made->add_roce();
    made->add_roce();
    made->netdev(1).addresses = {{0x0a000002, 24}};
    for (const char* of : {"all", "eth0", "eth1"}) {
      const std::string folder = std::string("/proc/sys/net/ipv4/conf/") + of;
      const bool is_all = of == std::string("all");
      made->write(folder + "/arp_ignore", std::to_string(is_all ? 0 : ignore) + "\n");
      made->write(folder + "/arp_announce", std::to_string(is_all ? 0 : announce) + "\n");
      made->write(folder + "/arp_filter", "0\n");
      made->write(folder + "/rp_filter", std::to_string(is_all ? 0 : rp_filter) + "\n");
    }
  };
}

// A RoCE port beside interfaces without RDMA of these addresses.
auto beside(std::vector<uint32_t> addresses, bool has_proc = false) {
  return [=](MadeFabric* made) {
    made->add_roce();
    for (size_t i = 0; i < addresses.size(); ++i) {
      made->host.ports.netdevs["eno" + std::to_string(i)].addresses = {{addresses[i], 24}};
    }
    if (has_proc) made->write("/proc/sys/net/ipv4/conf/eno0/arp_ignore", "0\n");
  };
}

TEST(IpSubnets, EachCase_HasItsVerdict) {
  const auto step = [](const std::string& setting, int wanted) {
    return "sysctl -w 'net/ipv4/conf/" + setting + "'=" + std::to_string(wanted);
  };
  expect_worst<MadeFabric>(
      "ip-subnets",
      {{"one for each port",
        [](MadeFabric* made) {
          made->add_roce();
          made->add_roce();
        },
        Verdict::kOk},
       {"unknown prefix",
        [](MadeFabric* made) {
          made->add_roce();
          made->netdev(0).addresses = {{0x0a000001, 0}};
        },
        Verdict::kUnknown, "eth0"},
       {"shared, with defaults", shared(0, 0, 0), Verdict::kWarning, "10.0.0.0/24",
        "eth0, eth1 are in one subnet; eth0: arp_ignore 0, arp_announce 0; eth1: arp_ignore 0, "
        "arp_announce 0",
        "",
        step("eth0/arp_ignore", 1) + "\n" + step("eth0/arp_announce", 2) + "\n" +
            step("eth1/arp_ignore", 1) + "\n" + step("eth1/arp_announce", 2)},
       {"shared, with suitable settings", shared(1, 2, 2), Verdict::kOk},
       {"shared, with suitable settings of all interfaces",
        [](MadeFabric* made) {
          shared(0, 0, 0)(made);
          made->write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1\n");
          made->write("/proc/sys/net/ipv4/conf/all/arp_announce", "2\n");
        },
        Verdict::kOk},
       {"shared, with a strict reverse path filter", shared(1, 2, 1), Verdict::kWarning, "",
        "eth1: rp_filter 1"},
       {"the same with policy routing",
        [](MadeFabric* made) {
          shared(1, 2, 1)(made);
          made->write("/proc/net/fib_trie",
                      "Main:\n  +-- 0.0.0.0/0 3 0 5\nLocal:\nId 101:\nId 102:\n");
        },
        Verdict::kOk},
       {"shared, with unknown settings", beside({0x0a000009}), Verdict::kUnknown},
       {"shared with an interface without RDMA", beside({0x0a000009}, true), Verdict::kWarning},
       {"shared with an interface that is not up",
        [](MadeFabric* made) {
          shared(0, 0, 0)(made);
          made->netdev(1).is_up = false;
        },
        Verdict::kOk},
       {"shared by others", beside({0xc0a80001, 0xc0a80002}), Verdict::kOk}});
}

}  // namespace
}  // namespace gdr::tools::doctor
