#include "tools/doctor/facts/elf_file.h"

#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/facts/made_elf.h"
#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

std::optional<ElfFile> read_text(const std::string& text) {
  MadeHost made;
  made.write("/lib/library.so", text);
  return read_elf_file(made.host.path("/lib/library.so"));
}

TEST(ReadElfFile, Library_HasItsNamesAndConstants) {
  const auto elf = read_text(made_elf(std::string("\0ibv_reg_mr\0", 12), "text"));
  ASSERT_TRUE(elf.has_value());
  EXPECT_TRUE(elf->has_name("ibv_reg_mr"));
  EXPECT_FALSE(elf->has_name("ibv_reg"));
  EXPECT_EQ(elf->constants, "text");
}

TEST(ReadElfFile, ThisProgram_UsesTheLibraryOfC) {
  const auto elf = read_elf_file("/proc/self/exe");
  ASSERT_TRUE(elf.has_value());
  EXPECT_NE(elf->names.find("libc.so"), std::string::npos);
}

TEST(ReadElfFile, OtherAndTruncatedFiles_AreNothing) {
  EXPECT_FALSE(read_text("").has_value());
  EXPECT_FALSE(read_text("/* GNU ld script */ GROUP ( libc.so.6 )").has_value());
  const std::string whole = made_library();
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    EXPECT_FALSE(read_text(whole.substr(0, bytes)).has_value()) << bytes;
  }
}

TEST(ReadElfFile, OddNumbers_DoNoHarm) {
  std::string text = made_library();
  for (size_t at = 16; at < text.size(); ++at) {
    const char was = text[at];
    text[at] = '\xff';
    (void)read_text(text);
    text[at] = was;
  }
}

}  // namespace
}  // namespace gdr::tools::doctor
