#include "tools/perf/report_file.h"

#include <gtest/gtest.h>

#include <fstream>

namespace gdr::tools {
namespace {
TEST(ReportFile, WhatIsWrittenByName_IsRead) {
  auto file = ReportFile::create();
  ASSERT_TRUE(file);
  std::ofstream(file->name()) << R"({"wrong": 3})";
  EXPECT_EQ(file->read(), (nlohmann::json{{"wrong", 3}}));
}

TEST(ReportFile, NothingOrHalfAReport_IsNull) {
  auto file = ReportFile::create();
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->read().is_null());
  std::ofstream(file->name()) << R"({"wrong": )";
  EXPECT_TRUE(file->read().is_null());
}
}  // namespace
}  // namespace gdr::tools
