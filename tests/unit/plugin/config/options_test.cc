#include "plugin/config/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

using O = const Options&;

struct Field {
  const char* name;
  const char* value;
  int64_t unset, set;  // what `of` returns without the variable, and with the value
  int64_t (*of)(O);
};

TEST(Options, EveryVariable_SetToAGoodValue_ReachesItsOwnField) {
  const Field fields[] = {
      {"NCCL_IB_HCA", "=mlx5_3:1", true, false,
       [](O o) -> int64_t { return o.hcas.accepts("mlx5_3", 2); }},
      {"NCCL_IB_DISABLE", "1", 0, 1, [](O o) -> int64_t { return o.disable; }},
      {"NCCL_IB_GID_INDEX", "3", -1, 3, [](O o) -> int64_t { return o.gid_index; }},
      {"NCCL_IB_ROCE_VERSION_NUM", "1", 2, 1, [](O o) -> int64_t { return o.roce_version; }},
      {"NCCL_IB_ADDR_FAMILY", "AF_INET6", AF_INET, AF_INET6,
       [](O o) -> int64_t { return o.address_family; }},
      {"NCCL_IB_ADDR_RANGE", "fd00::/8", false, true,
       [](O o) -> int64_t { return o.address_range.has_value(); }},
      {"NCCL_IB_TIMEOUT", "22", 20, 22, [](O o) -> int64_t { return o.ack_timeout; }},
      {"NCCL_IB_RETRY_CNT", "6", 7, 6, [](O o) -> int64_t { return o.retry_count; }},
      {"NCCL_IB_PKEY", "5", 0, 5, [](O o) -> int64_t { return o.pkey_index; }},
      {"NCCL_IB_SL", "4", -1, 4, [](O o) -> int64_t { return o.service_level; }},
      {"NCCL_IB_TC", "106", -1, 106, [](O o) -> int64_t { return o.traffic_class; }},
      {"NCCL_IB_FIFO_TC", "104", -1, 104, [](O o) -> int64_t { return o.fifo_traffic_class; }},
      {"NCCL_IB_QPS_PER_CONNECTION", "8", 1, 8,
       [](O o) -> int64_t { return o.qps_per_connection; }},
      {"NCCL_IB_SPLIT_DATA_ON_QPS", "1", false, true,
       [](O o) -> int64_t { return o.split_data_on_qps; }},
      {"NCCL_IB_ADAPTIVE_ROUTING", "0", -2, 0, [](O o) -> int64_t { return o.adaptive_routing; }},
      {"NCCL_IB_AR_THRESHOLD", "65536", -2, 65536,
       [](O o) -> int64_t { return o.adaptive_routing_threshold; }},
      {"NCCL_IB_PCI_RELAXED_ORDERING", "0", 2, 0,
       [](O o) -> int64_t { return o.relaxed_ordering; }},
      {"NCCL_GDR_FLUSH_DISABLE", "1", false, true, [](O o) -> int64_t { return o.flush_disable; }},
      {"NCCL_SOCKET_IFNAME", "^docker,lo", false, true,
       [](O o) -> int64_t { return o.socket_interfaces.is_set(); }},
      {"NCCL_SOCKET_FAMILY", "AF_INET", AF_UNSPEC, AF_INET,
       [](O o) -> int64_t { return o.socket_family; }},
      {"GDR_NCCL_WATCHDOG_SEC", "0", 60, 0, [](O o) -> int64_t { return o.watchdog_seconds; }},
      {"NCCL_NET_GDR_LEVEL", "PHB", false, true,
       [](O o) -> int64_t { return o.gdr_level.has_value(); }},
      {"NCCL_IB_MERGE_VFS", "0", true, false, [](O o) -> int64_t { return o.merge_functions; }},
      {"NCCL_TOPO_FILE", "/a=b.xml", 0, 8, [](O o) -> int64_t { return o.topology_file.size(); }},
      {"NCCL_GRAPH_FILE", "/b.xml", 0, 6, [](O o) -> int64_t { return o.graph_file.size(); }},
      {"NCCL_IB_WARN_RAIL_LOCAL", "1", false, true,
       [](O o) -> int64_t { return o.warn_cross_rail; }},
      {"GDR_NCCL_RAIL_MAP", "GPU0=mlx5_0", false, true,
       [](O o) -> int64_t { return o.rail_map.has_value(); }}};
  Environment environment;
  Findings findings;
  const Options unset = load({}, &findings);
  for (const Field& field : fields) environment[field.name] = field.value;
  const Options options = load(environment, &findings);
  EXPECT_THAT(findings, IsEmpty());
  for (const Field& field : fields) {
    EXPECT_EQ(field.of(unset), field.unset) << field.name;
    EXPECT_EQ(field.of(options), field.set) << field.name;
  }
  EXPECT_TRUE(options.hcas.accepts("mlx5_3", 1));
  EXPECT_EQ(options.address_range->to_string(), "fd00::/8");
  EXPECT_EQ(options.topology_file, "/a=b.xml");
  EXPECT_FALSE(options.socket_interfaces.accepts("lo"));
  EXPECT_EQ(options.gdr_level->path(), topology::PathClass::kPhb);
}

TEST(Options, Disable_IsAnyNumberButZero) {
  EXPECT_EQ(load({{"NCCL_IB_DISABLE", "0"}}, nullptr).disable, 0);
  for (const char* value : {"1", "2", "-1"}) {
    Findings findings;
    EXPECT_NE(load({{"NCCL_IB_DISABLE", value}}, &findings).disable, 0) << value;
    EXPECT_TRUE(findings.empty()) << value;
  }
  const std::pair<const char*, bool> odd[] = {
      {"1 # no RDMA", true}, {"1x", true},  {"4294967296", true},
      {"yes", false},        {"0x", false}, {"99999999999999999999", false}};
  for (const auto& [value, is_off] : odd) {
    Findings findings;
    EXPECT_EQ(load({{"NCCL_IB_DISABLE", value}}, &findings).disable != 0, is_off) << value;
    ASSERT_EQ(findings.size(), 1u) << value;
    EXPECT_THAT(findings[0].text, HasSubstr(is_off ? "no device is offered" : "is used: 0"));
    EXPECT_EQ(findings[0].fix, "use a number");
  }
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
    // The defaults would have more HCAs and interfaces.
    if (variable.name == std::string("NCCL_IB_HCA")) continue;
    if (variable.name == std::string("NCCL_SOCKET_IFNAME")) continue;
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

TEST(Options, ValueThatIsUsedInPart_IsAFindingThatNamesIt) {
  struct Case {
    Environment environment;
    Severity severity;
    const char* text;
  };
  for (const Case& one : {Case{{{"NCCL_IB_HCA", "mlx5_0:x"}},
                               Severity::kError,
                               "NCCL_IB_HCA: \"mlx5_0:x\": entries that cannot be read are "
                               "ignored: 'mlx5_0:x' (behind the name stand :port, "},
                          Case{{{"MLX5_SINGLE_THREADED", "1"}},
                               Severity::kWarning,
                               "MLX5_SINGLE_THREADED: \"1\" removes"},
                          Case{{{"NCCL_IB_ADDR_RANGE", "fd00::/8"}},
                               Severity::kError,
                               "NCCL_IB_ADDR_RANGE: \"fd00::/8\""}}) {
    Findings findings = findings_of(one.environment);
    ASSERT_EQ(findings.size(), 1u) << one.text;
    EXPECT_EQ(findings[0].severity, one.severity) << one.text;
    EXPECT_THAT(to_string(findings[0]), HasSubstr(one.text));
  }
  EXPECT_FALSE(load({{"NCCL_IB_ADDR_RANGE", "fd00::/8"}}, nullptr).address_range.has_value());
  EXPECT_THAT(to_string(findings_of({{"NCCL_IB_ADDR_RANGE", "fd00::/8"}})[0]),
              HasSubstr("NCCL_IB_ADDR_FAMILY is AF_INET,"));
  EXPECT_THAT(to_string(findings_of({{"MLX5_SINGLE_THREADED", "1"}})[0]),
              AllOf(HasSubstr("failover is off"), HasSubstr("Fix: ")));
  EXPECT_FALSE(load({{"MLX5_SINGLE_THREADED", "1"}}, nullptr).failover);
  EXPECT_TRUE(load({{"MLX5_SINGLE_THREADED", "yes"}}, nullptr).failover) << "libmlx5 knows 1 only";
  EXPECT_THAT(findings_of({{"MLX5_SINGLE_THREADED", "yes"}}), IsEmpty());
}

TEST(Options, MisspeltVariable_IsAWarningWithTheNearest) {
  const std::pair<const char*, const char*> cases[] = {
      {"GDR_NCCL_WACHDOG_SECS", "GDR_NCCL_WATCHDOG_SEC"},
      {"GDR_NCCL_IB_TIMEOUT", "NCCL_IB_TIMEOUT"},
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

// NCCL's socket transport, nccl-rdma-sharp-plugins and former releases of RCCL read most of them.
TEST(Options, VariableOfAnotherPluginOrOutsideOfTheTransport_IsNotNamed) {
  EXPECT_THAT(findings_of({{"NCCL_DEBUG", "INFO"},
                           {"NCCL_IBEXT_DISABLE", "1"},
                           {"GDR_X", "1"},
                           {"NCCL_SOCKET_NTHREADS", "4"},
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

}  // namespace
}  // namespace gdr::config
