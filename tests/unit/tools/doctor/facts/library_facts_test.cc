#include "tools/doctor/facts/library_facts.h"

#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/facts/made_elf.h"
#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

LibraryFile read_made(const std::string& file, const std::string& text) {
  MadeHost made;
  made.write(file, text);
  return read_library(made.host.root.string(), file, "test");
}

TEST(ReadLibrary, Nccl_HasItsVersionAsAText) {
  const std::string constants("NCCL version %s\0NCCL version 2.28.9+cuda13.0\0", 46);
  const LibraryFile nccl = read_made("/lib/libnccl.so.2", made_elf("x", constants));
  EXPECT_EQ(nccl.version, "2.28.9");
}

TEST(ReadLibrary, Verbs_HasItsVersionInItsName) {
  const LibraryFile verbs = read_made("/lib/libibverbs.so.1.14.44.0", made_elf("x", "x"));
  EXPECT_EQ(verbs.version, "1.14.44.0");
  EXPECT_FALSE(verbs.is_software_hca);
}

TEST(ReadLibrary, SoftwareHca_IsRecognised) {
  const LibraryFile verbs = read_made("/lib/libibverbs.so.1", made_elf("x", "SOFTHCA_CONFIG"));
  EXPECT_TRUE(verbs.is_software_hca);
  EXPECT_EQ(verbs.version, "");
}

TEST(ReadLibrary, Plugin_HasItsTables) {
  const std::string names("\0ncclNetPlugin_v8\0ncclNetPlugin_v12\0ncclCollNetPlugin_v9\0", 57);
  const LibraryFile plugin = read_made("/lib/libnccl-net.so", made_elf(names, "x"));
  EXPECT_EQ(plugin.net_tables, (std::vector<int>{8, 12}));
  EXPECT_FALSE(plugin.is_this_plugin);
  EXPECT_TRUE(read_made("/lib/a.so", made_elf(names, "GDR_NCCL_RAIL_MAP")).is_this_plugin);
  const std::string text = "version 3.4 x version 1.2.3 (wire version %d";
  EXPECT_EQ(read_made("/lib/a.so", made_elf(names, text)).version, "1.2.3");
}

TEST(ReadLibrary, OtherFile_HasNothing) {
  const LibraryFile library = read_made("/lib/libnccl.so.2", "text");
  EXPECT_EQ(library.version, "");
  EXPECT_TRUE(library.net_tables.empty());
}

TEST(ReadLibraryFacts, OfAnotherMachine_AreUnknown) {
  MadeHost made;
  EXPECT_FALSE(read_library_facts(made.host).is_known);
}

TEST(ReadLibraryFacts, PluginsThatAreNotFound_AreNamed) {
  MadeHost made;
  made.write("/lib/libnccl-net-gdr.so", made_elf("x", "x"));
  made.write("/lib/libfound.so", made_elf("x", "x"));
  made.host.is_live = true;
  made.host.environment["NCCL_NET_PLUGIN"] =
      "gdr,none,STATIC_PLUGIN,/a/b.so,libfound.so,ofi,liblost.so";
  EXPECT_EQ(read_library_facts(made.host).missing_plugins,
            (std::vector<std::string>{"libnccl-net-ofi.so", "liblost.so"}));
}

TEST(NcclVersionCode, CountsAsNcclDoes) {
  EXPECT_EQ(nccl_version_code("2.28.9"), 22809);
  EXPECT_EQ(nccl_version_code("2.4"), 20400);
  EXPECT_EQ(nccl_version_code(""), 0);
  EXPECT_EQ(nccl_version_code("2.1000.1"), 0);
  EXPECT_EQ(nccl_version_code("x.y"), 0);
}

}  // namespace
}  // namespace gdr::tools::doctor
