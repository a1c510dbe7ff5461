#include "tools/inspection/read_file.h"

#include <gmock/gmock.h>

namespace gdr::tools::topo {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(FileFormat, RootElementOrMatrix_Decides) {
  const std::pair<const char*, FileFormat> cases[] = {
      {"<topology version=\"2.0\">", FileFormat::kHwloc},
      {"<system version=\"1\">", FileFormat::kNccl},
      {"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!-- <system> -->\n"
       "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology>",
       FileFormat::kHwloc},
      {"<!DOCTYPE system [ <!ELEMENT a (b)> ]>\n<system/>", FileFormat::kNccl},
      {"$ nvidia-smi topo -m\n\t\x1b[4mGPU0\tmlx5_0\tCPU Affinity\x1b[0m\n",
       FileFormat::kNvidiaSmi}};
  for (const auto& [text, format] : cases) EXPECT_EQ(file_format(text), format) << text;
}

TEST(FileFormat, AnythingElse_FailsAndNamesWhatIsRead) {
  constexpr char kPrograms[] =
      "`lstopo file.xml` writes) nor a NCCL topology file (which NCCL writes with "
      "NCCL_TOPO_DUMP_FILE=file.xml) nor the text of `nvidia-smi topo -m`";
  constexpr char kJson[] = "--expect";
  const std::pair<const char*, const char*> cases[] = {{"", kPrograms},
                                                       {"<", kPrograms},
                                                       {"<html>", kPrograms},
                                                       {"<topologyx>", kPrograms},
                                                       {"<!--", kPrograms},
                                                       {"<?xml", kPrograms},
                                                       {"<!DOCTYPE [", kPrograms},
                                                       {"{}", kJson},
                                                       {"\n {\"schema_version\": 1}", kJson},
                                                       {"<graphs version=\"1\">", kPrograms}};
  for (const auto& [text, error] : cases) {
    const Result<FileFormat> format = file_format(text);
    ASSERT_FALSE(format.has_value()) << text;
    EXPECT_THAT(format.error().text, HasSubstr(error));
  }
  for (const char* file : {"/nonexistent.xml", "/"}) {
    const Result<FileFormat> format = file_format_of(file);
    ASSERT_FALSE(format.has_value());
    EXPECT_THAT(format.error().text, StartsWith("\"" + std::string(file) + "\" cannot"));
  }
}

}  // namespace
}  // namespace gdr::tools::topo
