#include "transport/device/registration_paths.h"

#include <gtest/gtest.h>

#include <string>

namespace gdr::transport {
namespace {

TEST(RegistrationPaths, Unset_AllAreAllowed) {
  EXPECT_EQ(RegistrationPaths{}.to_string(), "dmabuf,peermem,staging");
}

TEST(RegistrationPaths, AnyOrder_IsTheSameChoice) {
  EXPECT_EQ(RegistrationPaths::parse("staging,dmabuf").value().to_string(), "dmabuf,staging");
  EXPECT_EQ(RegistrationPaths::parse("peermem").value().to_string(), "peermem");
  EXPECT_EQ(RegistrationPaths::parse("staging,staging").value().to_string(), "staging");
}

TEST(RegistrationPaths, OnlyStaging_OtherPathsAllowed_IsFalse) {
  EXPECT_TRUE(RegistrationPaths::parse("staging").value().only_staging());
  EXPECT_FALSE(RegistrationPaths::parse("dmabuf,staging").value().only_staging());
  EXPECT_FALSE(RegistrationPaths::parse("dmabuf").value().only_staging());
}

TEST(RegistrationPaths, UnknownOrMissingName_IsRejectedByName) {
  for (std::string text : {"dma-buf", "dmabuf,", ",staging", "DMABUF", "dmabuf staging", ""}) {
    Result<RegistrationPaths> paths = RegistrationPaths::parse(text);
    ASSERT_FALSE(paths) << text;
    EXPECT_NE(paths.error().text.find("neither dmabuf, peermem nor staging"), std::string::npos);
  }
  EXPECT_NE(RegistrationPaths::parse("dmabuf,gdrcopy").error().text.find("'gdrcopy'"),
            std::string::npos);
}

TEST(RegistrationPaths, Names_AreThoseOfLogs) {
  EXPECT_STREQ(name_of(RegistrationPath::kDmaBuf), "dma-buf");
  EXPECT_STREQ(name_of(RegistrationPath::kPeermem), "nvidia-peermem");
  EXPECT_STREQ(name_of(RegistrationPath::kStaged), "staging");
}

}  // namespace
}  // namespace gdr::transport
