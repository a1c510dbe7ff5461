#include "drivers/verbs/verbs_api.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gdr::verbs {
namespace {

constexpr char kAbsent[] = "libgdr-test-absent.so.1";
constexpr char kNotVerbs[] = "libm.so.6";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(VerbsApi, LibraryAbsentOrWithoutVerbs_IsNamedWithTheReasonAndTheFix) {
  std::vector<std::string> failures;
  auto api = Api::load_first({kAbsent}, &failures);
  ASSERT_FALSE(api);
  EXPECT_EQ(api.error().code, Code::kUnsupported);
  EXPECT_TRUE(api.error().text.starts_with(std::string(kAbsent) + " cannot be loaded"));
  EXPECT_TRUE(contains(api.error().text, "No such file")) << api.error().text;
  EXPECT_TRUE(contains(api.error().text, "Fix: install rdma-core")) << api.error().text;
  failures.clear();
  api = Api::load_first({kAbsent, kNotVerbs, kAbsent}, &failures);
  ASSERT_FALSE(api);
  EXPECT_TRUE(api.error().text.starts_with(std::string(kNotVerbs) +
                                           " has no ibv_get_device_list@IBVERBS_1.1"))
      << api.error().text;
  EXPECT_TRUE(contains(api.error().text, "NCCL_IBVERBS_LIB")) << api.error().text;
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_TRUE(contains(failures[0], kAbsent));
}

}  // namespace
}  // namespace gdr::verbs
