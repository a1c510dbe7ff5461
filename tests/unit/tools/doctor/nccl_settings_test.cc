#include "tools/doctor/nccl_settings.h"

#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

TEST(UnsetText, OfAFile_NamesItsLine) {
  MadeHost made;
  made.host.environment["NCCL_NET"] = "Socket";
  EXPECT_EQ(unset_text(made.host, "NCCL_NET"), "unset NCCL_NET");
  made.host.conf_places["NCCL_NET"] = {"/etc/nccl.conf", 7};
  EXPECT_EQ(unset_text(made.host, "NCCL_NET"), "remove line 7 of /etc/nccl.conf");
  EXPECT_EQ(set_text(made.host, "NCCL_NET", "GDR"),
            "write NCCL_NET=GDR in line 7 of /etc/nccl.conf");
}

TEST(NcclNames, AreFoundAndCompared) {
  EXPECT_TRUE(is_nccl_name("NCCL_NET_GDR_LEVEL"));
  EXPECT_TRUE(is_nccl_name("NCCL_ALGO"));
  EXPECT_FALSE(is_nccl_name("NCCL_NET_GDR_LEVLE"));
  EXPECT_EQ(nccl_name_like("NCCL_NET_GDR_LEVLE"), "NCCL_NET_GDR_LEVEL");
  EXPECT_EQ(nccl_name_like("NCCL_P2PDISABLE"), "NCCL_P2P_DISABLE");
  for (const char* other : {"NCCL_OF_ANOTHER_PROGRAM", "NCCL_P2P_ENABLE", "NCCL_PXN_ENABLE",
                            "NCCL_RDMA_ENABLE", "NCCL_GPUDIRECT_RDMA", "NCCL_GDR_LEVEL"}) {
    EXPECT_EQ(nccl_name_like(other), "") << other;
  }
}

}  // namespace
}  // namespace gdr::tools::doctor
