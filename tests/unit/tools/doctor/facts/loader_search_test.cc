#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/tools/doctor/facts/made_elf.h"
#include "tests/unit/tools/doctor/facts/made_host.h"
#include "tools/doctor/facts/library_facts.h"

namespace gdr::tools::doctor {
namespace {

void append(uint32_t value, std::string* text) {
  text->append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A cache with one entry.
std::string made_cache(const std::string& name, const std::string& path) {
  std::string text = "glibc-ld.so.cache1.1";
  append(1, &text);
  text.resize(48);
  append(0, &text);
  append(72, &text);
  append(static_cast<uint32_t>(72 + name.size() + 1), &text);
  text.resize(72);
  return text + name + '\0' + path + '\0';
}

TEST(PathsInCache, Entry_IsFoundByItsName) {
  const std::string cache = made_cache("libnccl.so.2", "/cuda/libnccl.so.2");
  EXPECT_EQ(paths_in_cache(cache, "libnccl.so.2"),
            (std::vector<std::string>{"/cuda/libnccl.so.2"}));
  EXPECT_TRUE(paths_in_cache(cache, "libnccl.so").empty());
}

TEST(PathsInCache, CacheBehindTheOldForm_IsFound) {
  EXPECT_EQ(paths_in_cache("ld.so-1.7.0" + made_cache("a", "/a"), "a").size(), 1u);
}

TEST(PathsInCache, OddContent_IsEmptyOrHarmless) {
  EXPECT_TRUE(paths_in_cache("", "a").empty());
  EXPECT_TRUE(paths_in_cache("text", "a").empty());
  std::string cache = made_cache("a", "/a");
  for (size_t bytes = 0; bytes < cache.size(); ++bytes) {
    (void)paths_in_cache(cache.substr(0, bytes), "a");
  }
  std::memset(cache.data() + 20, 0xff, 4);
  (void)paths_in_cache(cache, "a");
}

TEST(FindLibrary, LdLibraryPath_ComesFirst) {
  MadeHost made;
  made.write("/a/lib.so", made_library());
  made.write("/b/lib.so", made_library());
  made.write("/usr/lib/lib.so", made_library());
  made.write("/etc/ld.so.cache", made_cache("lib.so", "/b/lib.so"));
  const auto found = find_library(made.host.root, "lib.so", "relative::/missing:/a");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].file, "/a/lib.so");
  EXPECT_EQ(found[0].by, "LD_LIBRARY_PATH");
  EXPECT_EQ(found[1].by, "/etc/ld.so.cache");
  EXPECT_EQ(found[2].by, "default folder");
}

TEST(FindLibrary, RelativeAndEmptyFolders_AreBelowTheCurrentOne) {
  MadeHost made;
  made.write("/job/libs/lib.so", made_library());
  made.write("/job/lib.so", made_library());
  made.write("/a/lib.so", made_library());
  const auto found = find_library(made.host.root, "lib.so", "libs:/a:", "/job");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].file, "/job/libs/lib.so");
  EXPECT_EQ(found[1].file, "/a/lib.so");
  EXPECT_EQ(found[2].file, "/job/lib.so");
  EXPECT_TRUE(find_library(made.host.root, "lib.so", "", "/job").empty());
}

TEST(FindLibrary, SameFileTwice_CountsOnce) {
  MadeHost made;
  made.write("/a/lib.so", made_library());
  EXPECT_EQ(find_library(made.host.root, "lib.so", "/a:/a").size(), 1u);
}

TEST(FindLibrary, FolderInPlaceOfTheCache_IsNoCache) {
  MadeHost made;
  made.write("/usr/lib/lib.so", made_library());
  std::filesystem::create_directories(made.host.path("/etc/ld.so.cache"));
  EXPECT_EQ(find_library(made.host.root, "lib.so", "").size(), 1u);
}

TEST(FindLibrary, FileThatIsNoLibrary_IsLeftOut) {
  MadeHost made;
  made.write("/a/lib.so", "GROUP ( /usr/lib/lib.so.1 )");
  EXPECT_TRUE(find_library(made.host.root, "lib.so", "/a").empty());
}

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
