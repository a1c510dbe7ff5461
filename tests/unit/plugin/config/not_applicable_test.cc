#include "plugin/config/not_applicable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "plugin/config/load.h"

namespace gdr::config {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The names of nccl_variables.txt: what NCCL's own transport and its handshake read.
std::set<std::string> names_of_nccl() {
  std::set<std::string> names;
  std::ifstream file(NCCL_VARIABLES);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') names.insert(line.substr(0, line.find(' ')));
  }
  return names;
}

Findings findings_of(const std::string& name, const std::string& value) {
  Findings findings;
  load({{name, value}}, &findings);
  return findings;
}

TEST(NotApplicable, EveryVariableOfNcclsTransport_IsHonouredOrNamed) {
  std::map<std::string, int> known;
  for (const Variable& variable : variables()) ++known[variable.name];
  for (const NotApplicable& variable : not_applicable()) ++known[variable.name];
  std::set<std::string> names = names_of_nccl();
  EXPECT_GT(names.size(), 50u) << NCCL_VARIABLES;
  for (const std::string& name : names) {
    EXPECT_EQ(known[name], 1) << name << " has to be in options.def or in not_applicable.cc";
  }
}

// So that a row is removed when the plugin starts to read its variable.
TEST(NotApplicable, EachRow_IsInNoOtherTableAndReadByNccl) {
  const std::set<std::string> before_2_4 = {"NCCL_IB_CUDA_SUPPORT", "NCCL_IB_GDR_LEVEL"};
  std::set<std::string> read = names_of_nccl(), seen;
  for (const Variable& variable : variables()) seen.insert(variable.name);
  for (const NotApplicable& variable : not_applicable()) {
    EXPECT_TRUE(seen.insert(variable.name).second) << variable.name << " is listed twice";
    EXPECT_TRUE(read.count(variable.name) + before_2_4.count(variable.name)) << variable.name;
    EXPECT_GT(std::string(variable.reason).size(), 10u) << variable.name;
  }
}

TEST(NotApplicable, DefaultOrWhatThePluginDoes_IsNotNamed) {
  for (const NotApplicable& variable : not_applicable()) {
    EXPECT_THAT(findings_of(variable.name, std::to_string(variable.default_value)), IsEmpty());
    EXPECT_THAT(findings_of(variable.name, std::to_string(variable.ours)), IsEmpty());
    EXPECT_THAT(findings_of(variable.name, ""), IsEmpty());
  }
  EXPECT_THAT(findings_of("NCCL_SOCKET_MAGIC", "0x564ab9f2fc4b9d6c"), IsEmpty());
  // NCCL reads what is no number as 0.
  EXPECT_THAT(findings_of("NCCL_IB_OOO_RQ", "yes"), IsEmpty());
  EXPECT_EQ(findings_of("NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX", "many").size(), 1u);
}

TEST(NotApplicable, AnyOtherValue_IsNamedOnceWithTheReason) {
  for (const NotApplicable& variable : not_applicable()) {
    Findings findings = findings_of(variable.name, "77");
    ASSERT_EQ(findings.size(), 1u) << variable.name;
    EXPECT_EQ(findings[0].subject, variable.name);
    EXPECT_EQ(findings[0].severity, variable.severity);
    EXPECT_EQ(findings[0].text,
              std::string("\"77\" has no effect on the plugin: ") + variable.reason);
    EXPECT_EQ(findings[0].fix, variable.fix);
  }
  EXPECT_EQ(findings_of("NCCL_IB_OOO_RQ", "1")[0].severity, Severity::kWarning) << "it misleads";
  EXPECT_EQ(findings_of("NCCL_SOCKET_RCVBUF", "1048576")[0].severity, Severity::kInfo);
}

TEST(NotApplicable, Markdown_ListsEachWithItsReason) {
  std::string text = markdown();
  for (const NotApplicable& variable : not_applicable()) {
    EXPECT_THAT(text, HasSubstr("| `" + std::string(variable.name) + "` | "));
  }
}

}  // namespace
}  // namespace gdr::config
