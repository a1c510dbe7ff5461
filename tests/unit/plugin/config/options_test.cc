#include "plugin/config/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plugin/config/load.h"
#include "plugin/config/variables.h"

namespace gdr::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Findings findings_of(const Environment& environment) {
  Findings findings;
  load(environment, &findings);
  return findings;
}

TEST(Options, NothingSet_AreNcclsDefaults) {
  Findings findings;
  Options options = load({}, &findings);
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_TRUE(options.hcas.accepts("mlx5_0", 1));
  EXPECT_EQ(options.disable, 0);
  EXPECT_EQ(options.gid_index, -1);
  EXPECT_EQ(options.roce_version, 2);
  EXPECT_EQ(options.address_family, AF_INET);
  EXPECT_FALSE(options.address_range.has_value());
  EXPECT_EQ(options.ack_timeout, 20);
  EXPECT_EQ(options.retry_count, 7);
  EXPECT_EQ(options.pkey_index, 0);
  EXPECT_EQ(options.service_level, -1);
  EXPECT_EQ(options.traffic_class, -1);
  EXPECT_EQ(options.fifo_traffic_class, -1);
  EXPECT_EQ(options.qps_per_connection, 1);
  EXPECT_FALSE(options.split_data_on_qps);
  EXPECT_EQ(options.adaptive_routing, -2);
  EXPECT_EQ(options.adaptive_routing_threshold, -2);
  EXPECT_EQ(options.relaxed_ordering, 2);
  EXPECT_FALSE(options.flush_disable);
  EXPECT_FALSE(options.socket_interfaces.is_set());
  EXPECT_EQ(options.socket_family, AF_UNSPEC);
  EXPECT_EQ(options.watchdog_seconds, 60);
}

TEST(Options, EveryVariable_SetToGoodValues_ReachesItsOwnField) {
  Findings findings;
  Options options = load({{"NCCL_IB_HCA", "=mlx5_3:1"},
                          {"NCCL_IB_DISABLE", "1"},
                          {"NCCL_IB_GID_INDEX", "3"},
                          {"NCCL_IB_ROCE_VERSION_NUM", "1"},
                          {"NCCL_IB_ADDR_FAMILY", "AF_INET6"},
                          {"NCCL_IB_ADDR_RANGE", "fd00::/8"},
                          {"NCCL_IB_TIMEOUT", "22"},
                          {"NCCL_IB_RETRY_CNT", "6"},
                          {"NCCL_IB_PKEY", "5"},
                          {"NCCL_IB_SL", "4"},
                          {"NCCL_IB_TC", "106"},
                          {"NCCL_IB_FIFO_TC", "104"},
                          {"NCCL_IB_QPS_PER_CONNECTION", "8"},
                          {"NCCL_IB_SPLIT_DATA_ON_QPS", "1"},
                          {"NCCL_IB_ADAPTIVE_ROUTING", "0"},
                          {"NCCL_IB_AR_THRESHOLD", "65536"},
                          {"NCCL_IB_PCI_RELAXED_ORDERING", "0"},
                          {"NCCL_GDR_FLUSH_DISABLE", "1"},
                          {"NCCL_SOCKET_IFNAME", "^docker,lo"},
                          {"NCCL_SOCKET_FAMILY", "AF_INET"},
                          {"GDR_NCCL_WATCHDOG_SEC", "0"}},
                         &findings);
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_TRUE(options.hcas.accepts("mlx5_3", 1));
  EXPECT_FALSE(options.hcas.accepts("mlx5_3", 2));
  EXPECT_EQ(options.disable, 1);
  EXPECT_EQ(options.gid_index, 3);
  EXPECT_EQ(options.roce_version, 1);
  EXPECT_EQ(options.address_family, AF_INET6);
  EXPECT_EQ(options.address_range->to_string(), "fd00::/8");
  EXPECT_EQ(options.ack_timeout, 22);
  EXPECT_EQ(options.retry_count, 6);
  EXPECT_EQ(options.pkey_index, 5);
  EXPECT_EQ(options.service_level, 4);
  EXPECT_EQ(options.traffic_class, 106);
  EXPECT_EQ(options.fifo_traffic_class, 104);
  EXPECT_EQ(options.qps_per_connection, 8);
  EXPECT_TRUE(options.split_data_on_qps);
  EXPECT_EQ(options.adaptive_routing, 0);
  EXPECT_EQ(options.adaptive_routing_threshold, 65536);
  EXPECT_EQ(options.relaxed_ordering, 0);
  EXPECT_TRUE(options.flush_disable);
  EXPECT_FALSE(options.socket_interfaces.accepts("lo"));
  EXPECT_EQ(options.socket_family, AF_INET);
  EXPECT_EQ(options.watchdog_seconds, 0);
}

TEST(Options, RailVariables_AreRead) {
  Options options = load({{"NCCL_NET_GDR_LEVEL", "PHB"},
                          {"NCCL_IB_MERGE_VFS", "0"},
                          {"NCCL_TOPO_FILE", "/a=b.xml"},
                          {"NCCL_IB_WARN_RAIL_LOCAL", "1"},
                          {"GDR_NCCL_RAIL_MAP", "GPU0=mlx5_0"}},
                         nullptr);
  EXPECT_EQ(options.gdr_level->path(), topology::PathClass::kPhb);
  EXPECT_FALSE(options.merge_functions);
  EXPECT_EQ(options.topology_file, "/a=b.xml");
  EXPECT_TRUE(options.warn_cross_rail);
  EXPECT_EQ(options.rail_map->entries().size(), 1u);
}

TEST(Options, Disable_IsAnyNumberButZero) {
  EXPECT_EQ(load({{"NCCL_IB_DISABLE", "0"}}, nullptr).disable, 0);
  for (const char* value : {"1", "2", "-1"}) {
    Findings findings;
    EXPECT_NE(load({{"NCCL_IB_DISABLE", value}}, &findings).disable, 0) << value;
    EXPECT_TRUE(findings.empty()) << value;
  }
}

// NCCL accepts numbers, so one is not worth a warning.
TEST(Options, GdrLevelAsANumber_IsReadWithoutAFinding) {
  Findings findings;
  Options options = load({{"NCCL_NET_GDR_LEVEL", "3"}}, &findings);
  EXPECT_EQ(options.gdr_level->path(), topology::PathClass::kPhb);
  EXPECT_THAT(findings, IsEmpty());
}

TEST(Options, ValueSetToNothing_CountsAsUnset) {
  Environment environment;
  for (const Variable& variable : variables()) environment[variable.name] = "";
  EXPECT_THAT(findings_of(environment), IsEmpty());
}

// For each variable a value that its row does not accept; a file may have any name.
TEST(Options, EveryVariable_UnusableValue_IsReportedAndTheDefaultUsed) {
  for (const Variable& variable : variables()) {
    if (variable.type == std::string("text")) continue;
    const std::string bad = "^=^,\n";
    Findings findings;
    Options options = load({{variable.name, bad}}, &findings);
    ASSERT_EQ(findings.size(), 1u) << variable.name;
    EXPECT_EQ(findings[0].subject, variable.name);
    EXPECT_EQ(findings[0].severity, Severity::kError);
    EXPECT_THAT(to_string(findings[0]),
                AllOf(HasSubstr(std::string(variable.name) + ": \"^=^,?\" cannot be used: "),
                      HasSubstr("Fix: use " + variable.accepted),
                      HasSubstr("default is used: " + variable.default_text)));
    EXPECT_EQ(variable.show(options), variable.show(Options{})) << variable.name;
  }
}

TEST(Options, IntegerVariables_JustOutOfRange_AreRejected) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"NCCL_IB_GID_INDEX", {"-2", "256"}},
      {"NCCL_IB_ROCE_VERSION_NUM", {"0", "3"}},
      {"NCCL_IB_TIMEOUT", {"-1", "32"}},
      {"NCCL_IB_RETRY_CNT", {"-1", "8"}},
      {"NCCL_IB_PKEY", {"-1", "65536"}},
      {"NCCL_IB_SL", {"-2", "16"}},
      {"NCCL_IB_TC", {"-2", "256"}},
      {"NCCL_IB_FIFO_TC", {"-2", "256"}},
      {"NCCL_IB_QPS_PER_CONNECTION", {"0", "129"}},
      {"NCCL_IB_PCI_RELAXED_ORDERING", {"-1", "3"}},
      {"NCCL_IB_SPLIT_DATA_ON_QPS", {"2"}},
      {"NCCL_IB_ADAPTIVE_ROUTING", {"-3", "2", "yes"}},
      {"NCCL_IB_AR_THRESHOLD", {"-3", "2147483648"}},
      {"GDR_NCCL_WATCHDOG_SEC", {"-1", "86401"}}};
  for (const auto& [name, values] : cases) {
    for (const char* value : values) {
      EXPECT_EQ(findings_of({{name, value}}).size(), 1u) << name << "=" << value;
    }
  }
}

TEST(Options, IgnoredPartOfAList_IsAWarningAndTheRestIsUsed) {
  Findings findings;
  Options options = load({{"NCCL_IB_HCA", "mlx5_0,,"}}, &findings);
  EXPECT_FALSE(options.hcas.accepts("rxe0", 1));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
  EXPECT_THAT(to_string(findings[0]),
              HasSubstr("NCCL_IB_HCA: \"mlx5_0,,\": entries without a name"));
}

TEST(Options, LocksOfMlx5AreRemoved_FailoverIsOffWithAWarning) {
  Findings findings;
  EXPECT_FALSE(load({{"MLX5_SINGLE_THREADED", "1"}}, &findings).failover);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
  EXPECT_THAT(to_string(findings[0]), AllOf(HasSubstr("MLX5_SINGLE_THREADED: \"1\" removes"),
                                            HasSubstr("failover is off"), HasSubstr("Fix: ")));
  findings.clear();
  EXPECT_TRUE(load({{"MLX5_SINGLE_THREADED", "yes"}}, &findings).failover)
      << "libmlx5 knows 1 only";
  EXPECT_THAT(findings, IsEmpty());
}

TEST(Options, RangeOfTheOtherFamily_IsRejected) {
  Findings findings;
  Options options = load({{"NCCL_IB_ADDR_RANGE", "fd00::/8"}}, &findings);
  EXPECT_FALSE(options.address_range.has_value());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::kError);
  EXPECT_THAT(to_string(findings[0]), AllOf(HasSubstr("NCCL_IB_ADDR_RANGE: \"fd00::/8\""),
                                            HasSubstr("NCCL_IB_ADDR_FAMILY is AF_INET,")));
}

TEST(Options, UnknownVariableOfOurs_IsNamedWithTheNearest) {
  auto findings = findings_of({{"GDR_NCCL_WACHDOG_SECS", "5"}});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
  EXPECT_EQ(findings[0].subject, "GDR_NCCL_WACHDOG_SECS");
  EXPECT_THAT(findings[0].fix, HasSubstr("is GDR_NCCL_WATCHDOG_SEC"));
  EXPECT_THAT(findings_of({{"GDR_NCCL_IB_TIMEOUT", "5"}})[0].fix, HasSubstr(" NCCL_IB_TIMEOUT"));
}

TEST(Options, UnknownVariableOutsideOfTheTransport_IsIgnored) {
  EXPECT_THAT(findings_of({{"NCCL_DEBUG", "INFO"}, {"NCCL_IBEXT_DISABLE", "1"}, {"GDR_X", "1"}}),
              IsEmpty());
}

TEST(Options, MisspeltVariableOfTheTransport_IsAWarningWithTheNearest) {
  const std::pair<const char*, const char*> cases[] = {
      {"NCCL_IB_HCAS", "NCCL_IB_HCA"},
      {"NCCL_IB_GID_IDX", "NCCL_IB_GID_INDEX"},
      {"NCCL_IB_TIMEOUTS", "NCCL_IB_TIMEOUT"},
      {"NCCL_IB_OOO_RQS", "NCCL_IB_OOO_RQ"},
      {"NCCL_IB_IFNAME", "NCCL_SOCKET_IFNAME"},
      {"NCCL_SOCKET_RETRY_COUNT", "NCCL_SOCKET_RETRY_CNT"}};
  for (const auto& [name, nearest] : cases) {
    Findings findings = findings_of({{name, "5"}});
    ASSERT_EQ(findings.size(), 1u) << name;
    EXPECT_EQ(findings[0].severity, Severity::kWarning) << name;
    EXPECT_EQ(findings[0].subject, name);
    EXPECT_EQ(findings[0].fix, std::string("check the spelling; the nearest name is ") + nearest);
  }
}

TEST(Options, UnknownVariableOfTheTransportLikeNoOther_IsNamedAtInfo) {
  for (const char* name : {"NCCL_IB_ENTIRELY_DIFFERENT", "NCCL_IB_FOO", "NCCL_IB_SPEED",
                           "NCCL_IB_ENABLE", "NCCL_SOCKET_BACKLOG"}) {
    Findings findings = findings_of({{name, "5"}});
    ASSERT_EQ(findings.size(), 1u) << name;
    EXPECT_EQ(findings[0].severity, Severity::kInfo) << name;
    EXPECT_THAT(findings[0].text, HasSubstr("neither the plugin nor the transport of NCCL"));
    EXPECT_THAT(findings[0].fix, IsEmpty()) << name;
  }
}

TEST(Options, SubnetPrefixWithoutSubnetAwareRouting_IsNamedAtInfo) {
  Findings findings = findings_of({{"NCCL_IB_SUBNET_PREFIX_LEN", "16"}});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::kInfo);
  EXPECT_EQ(to_string(findings[0]),
            "NCCL_IB_SUBNET_PREFIX_LEN: \"16\" has no effect without "
            "NCCL_IB_SUBNET_AWARE_ROUTING=1");
  EXPECT_THAT(
      findings_of({{"NCCL_IB_SUBNET_PREFIX_LEN", "16"}, {"NCCL_IB_SUBNET_AWARE_ROUTING", "1"}}),
      IsEmpty());
  EXPECT_THAT(findings_of({{"NCCL_IB_SUBNET_PREFIX_LEN", "24"}}), IsEmpty());
}

// NCCL's socket transport, nccl-rdma-sharp-plugins and former releases of RCCL read them.
TEST(Options, VariableOfAnotherPlugin_IsNotNamed) {
  EXPECT_THAT(findings_of({{"NCCL_SOCKET_NTHREADS", "4"},
                           {"NCCL_SOCKET_INLINE", "128"},
                           {"NCCL_SOCKET_MIN_TASKSIZE", "65536"},
                           {"NCCL_IB_IS_GLOBAL", "1"},
                           {"NCCL_IB_SOCK_CLIENT_PORT_REUSE", "1"},
                           {"NCCL_IB_SOCK_SERVER_PORT_REUSE", "1"}}),
              IsEmpty());
}

TEST(Options, Describe_EachState_IsShown) {
  Description description = describe({{"NCCL_IB_TIMEOUT", "0x16"},
                                      {"NCCL_IB_RETRY_CNT", "9"},
                                      {"NCCL_IB_ADDR_RANGE", "fd00::/8"},
                                      {"GDR_NCCL_NONE", "1"}});
  EXPECT_EQ(description.rows.size(), variables().size());
  EXPECT_EQ(description.unknown.size(), 1u);
  for (const Row& row : description.rows) {
    std::string name = row.variable->name;
    if (name == "NCCL_IB_TIMEOUT") {
      EXPECT_EQ(row.state, Row::State::kSet);
      EXPECT_EQ(row.value, "0x16");
      EXPECT_EQ(row.effective, "22");
    } else if (name == "NCCL_IB_RETRY_CNT" || name == "NCCL_IB_ADDR_RANGE") {
      EXPECT_EQ(row.state, Row::State::kRejected);
      EXPECT_EQ(row.effective, row.variable->default_text);
      EXPECT_EQ(row.findings.size(), 1u);
    } else {
      EXPECT_EQ(row.state, Row::State::kDefault) << name;
      EXPECT_EQ(row.effective, row.variable->default_text) << name;
    }
  }
}

TEST(Options, RandomValues_NeverLeaveTheRangesOfTheTable) {
  std::mt19937 random(19);
  const std::string alphabet = "0123456789-x^=,:/.AF_INET6 \n\x01\xff";
  for (int i = 0; i < 3000; ++i) {
    Environment environment;
    for (const Variable& variable : variables()) {
      std::string text(random() % 9, ' ');
      for (char& c : text) c = alphabet[random() % alphabet.size()];
      environment[variable.name] = text;
    }
    Options options = load(environment, nullptr);
    EXPECT_TRUE(options.ack_timeout >= 0 && options.ack_timeout <= 31);
    EXPECT_TRUE(options.retry_count >= 0 && options.retry_count <= 7);
    EXPECT_TRUE(options.qps_per_connection >= 1 && options.qps_per_connection <= 128);
    EXPECT_TRUE(options.gid_index >= -1 && options.gid_index <= 255);
    EXPECT_TRUE(options.service_level >= -1 && options.service_level <= 15);
    EXPECT_TRUE(options.traffic_class >= -1 && options.traffic_class <= 255);
    EXPECT_TRUE(options.pkey_index >= 0 && options.pkey_index <= 65535);
    EXPECT_TRUE(options.address_family == AF_INET || options.address_family == AF_INET6);
  }
}

}  // namespace
}  // namespace gdr::config
