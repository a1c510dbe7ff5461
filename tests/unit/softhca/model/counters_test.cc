#include "softhca/model/counters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "softhca/model/config.h"
#include "tests/fakes/temp_folder.h"

namespace softhca {
namespace {

using Json = nlohmann::json;

std::vector<DeviceConfig> two_devices() { return Config::load(nullptr)->devices; }

TEST(Counters, RequestsOfOneShape_AreCountedTogether) {
  Counters counters("/unused", two_devices());
  counters.add_request(1, 1, {"RDMA_WRITE", 64, 0, true, false});
  counters.add_request(1, 1, {"RDMA_WRITE", 64, 0, true, false});
  counters.add_request(1, 1, {"RDMA_WRITE", 64, 0, true, true});
  counters.add_doorbell(1, 1);
  const Json text = Json::parse(counters.text());
  EXPECT_EQ(text["devices"][0]["ports"][0]["requests"].size(), 0u);
  const Json& port = text["devices"][1]["ports"][0];
  ASSERT_EQ(port["requests"].size(), 2u);
  EXPECT_EQ(port["requests"][0]["count"], 2);
  EXPECT_EQ(port["requests"][0]["bytes"], 64);
  EXPECT_EQ(port["requests"][1]["signaled"], true);
  EXPECT_EQ(port["doorbells"], 1);
}

TEST(Counters, CompletionsAndReceives_AreCountedByKind) {
  Counters counters("/unused", two_devices());
  counters.add_completion(0, 1, true, true);
  counters.add_completion(0, 1, false, true);
  counters.add_completion(0, 1, false, false);
  counters.add_receives(0, 1, 64);
  counters.add_receives(0, 1, 0);  // a call that posted nothing
  const Json port = Json::parse(counters.text())["devices"][0]["ports"][0];
  EXPECT_EQ(port["send_completions"], 1);
  EXPECT_EQ(port["receive_completions"], 1);
  EXPECT_EQ(port["error_completions"], 1);
  EXPECT_EQ(port["receives"], 64);
  EXPECT_EQ(port["receive_doorbells"], 1);
}

TEST(Counters, NumberOfTheProcess_IsInTheNameOfTheFile) {
  const gdr::TempFolder folder;
  Counters counters((folder.path() / "counters.%p.json").string(), two_devices());
  counters.write();
  const std::string name = "counters." + std::to_string(getpid()) + ".json";
  EXPECT_EQ(Json::parse(gdr::read_whole(folder.path() / name))["pid"], getpid());
}

}  // namespace
}  // namespace softhca
