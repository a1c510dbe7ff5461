#include "transport/device/registration_paths.h"

#include <gtest/gtest.h>

#include <string>

namespace gdr::transport {
namespace {

TEST(RegistrationPaths, Unset_AllAreAllowed) {
  EXPECT_EQ(RegistrationPaths{}.to_string(), "dmabuf,peermem");
}

TEST(RegistrationPaths, AnyOrder_IsTheSameChoice) {
  EXPECT_EQ(RegistrationPaths::parse("peermem,dmabuf").value().to_string(), "dmabuf,peermem");
  EXPECT_EQ(RegistrationPaths::parse("peermem").value().to_string(), "peermem");
  EXPECT_EQ(RegistrationPaths::parse("dmabuf,dmabuf").value().to_string(), "dmabuf");
}

TEST(RegistrationPaths, UnknownOrMissingName_IsRejectedByName) {
  for (std::string text :
       {"dma-buf", "dmabuf,", ",peermem", "DMABUF", "dmabuf peermem", "staging", ""}) {
    Result<RegistrationPaths> paths = RegistrationPaths::parse(text);
    ASSERT_FALSE(paths) << text;
    EXPECT_NE(paths.error().text.find("neither dmabuf nor peermem"), std::string::npos);
  }
  EXPECT_NE(RegistrationPaths::parse("dmabuf,gdrcopy").error().text.find("'gdrcopy'"),
            std::string::npos);
}

TEST(RegistrationPaths, Names_AreThoseOfLogs) {
  EXPECT_STREQ(name_of(RegistrationPath::kDmaBuf), "dma-buf");
  EXPECT_STREQ(name_of(RegistrationPath::kPeermem), "nvidia-peermem");
}

}  // namespace
}  // namespace gdr::transport
