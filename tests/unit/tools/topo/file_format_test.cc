#include "tools/topo/file_format.h"

#include <gmock/gmock.h>

namespace gdr::tools::topo {
namespace {

TEST(FileFormat, RootElement_Decides) {
  EXPECT_EQ(file_format("<topology version=\"2.0\">"), FileFormat::kHwloc);
  EXPECT_EQ(file_format("<system version=\"1\">"), FileFormat::kNccl);
}

TEST(FileFormat, PrologueCommentsAndDoctype_AreSkipped) {
  EXPECT_EQ(file_format("\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!-- <system> -->\n"
                        "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology>"),
            FileFormat::kHwloc);
  EXPECT_EQ(file_format("<!DOCTYPE system [ <!ELEMENT a (b)> ]>\n<system/>"), FileFormat::kNccl);
}

TEST(FileFormat, MatrixOfNvidiaSmi_IsRecognisedAmongOtherLines) {
  EXPECT_EQ(file_format("$ nvidia-smi topo -m\n\t\x1b[4mGPU0\tmlx5_0\tCPU Affinity\x1b[0m\n"),
            FileFormat::kNvidiaSmi);
}

TEST(FileFormat, AnythingElse_FailsAndNamesTheProgramsThatWriteSuchFiles) {
  for (const char* text : {"", "<", "<html>", "<topologyx>", "<!--", "<?xml", "<!DOCTYPE ["}) {
    Result<FileFormat> format = file_format(text);
    ASSERT_FALSE(format.has_value()) << text;
    EXPECT_THAT(format.error().text, ::testing::HasSubstr("lstopo file.xml"));
    EXPECT_THAT(format.error().text, ::testing::HasSubstr("NCCL_TOPO_DUMP_FILE"));
    EXPECT_THAT(format.error().text, ::testing::HasSubstr("nvidia-smi topo -m"));
  }
}

TEST(FileFormat, Json_FailsAndNamesTheOptionsThatTakeIt) {
  for (const char* text : {"{}", "\n {\"schema_version\": 1}"}) {
    Result<FileFormat> format = file_format(text);
    ASSERT_FALSE(format.has_value()) << text;
    EXPECT_THAT(format.error().text, ::testing::HasSubstr("--compare"));
    EXPECT_THAT(format.error().text, ::testing::HasSubstr("--expect"));
  }
}

TEST(FileFormat, GraphOfNccl_FailsAndNamesTheOtherDump) {
  const Result<FileFormat> format = file_format("<graphs version=\"1\">");
  ASSERT_FALSE(format.has_value());
  EXPECT_THAT(format.error().text, ::testing::HasSubstr("is a graph of NCCL"));
  EXPECT_THAT(format.error().text, ::testing::HasSubstr("NCCL_TOPO_DUMP_FILE"));
}

TEST(FileFormat, FileThatCannotBeRead_IsNamed) {
  for (const char* file : {"/nonexistent.xml", "/"}) {
    Result<FileFormat> format = file_format_of(file);
    ASSERT_FALSE(format.has_value());
    EXPECT_EQ(format.error().text.find(file), 0u);
  }
}

}  // namespace
}  // namespace gdr::tools::topo
