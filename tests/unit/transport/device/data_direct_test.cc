#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "tests/fakes/recorded_log.h"
#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using fake_verbs::HcaConfig;

struct DataDirectTest : testing::Test {
  fake_verbs::FakeVerbs verbs;
  HcaConfig config = HcaConfig::infiniband("mlx5_0", 1);
  RecordedLog log;

  DataDirectTest() { config.data_direct_path = "/devices/pci0008:00/0008:01:00.0"; }

  std::shared_ptr<HcaContext> open_hca(bool data_direct = true) {
    return HcaContext::open(verbs.api(), verbs.add_hca(config), data_direct).value();
  }
  std::string path(bool data_direct = true) { return open_hca(data_direct)->data_direct_path(); }
  // As path(), where the registration of mlx5 fails with that errno.
  template <int kErrno>
  std::string path_where_it_fails() {
    static gdr::verbs::Mlx5Api mlx5;
    mlx5 = *verbs.api()->mlx5();
    mlx5.reg_dmabuf_mr = [](ibv_pd*, uint64_t, size_t, uint64_t, int, int, int) -> ibv_mr* {
      errno = kErrno;
      return nullptr;
    };
    verbs.mutable_api().mlx5 = []() -> const gdr::verbs::Mlx5Api* { return &mlx5; };
    return path();
  }
  // Registers some bytes by a descriptor that stands for a dma-buf. False if that fails.
  static bool register_dmabuf(const HcaContext& hca) {
    UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    MemoryRegion region{.address = 0x10000, .bytes = 4096, .cuda = true, .dmabuf_fd = fd.get()};
    Result<ibv_mr*> mr = hca.registrations().acquire(region, PciOrdering::kStrict);
    if (mr) hca.registrations().release(*mr);
    return mr.has_value();
  }
};

TEST_F(DataDirectTest, HcaHasIt_IsReportedByItsPathAndRegistersDmabufs) {
  const std::shared_ptr<HcaContext> hca = open_hca();
  EXPECT_EQ(hca->data_direct_path(), "/sys/devices/pci0008:00/0008:01:00.0");
  EXPECT_TRUE(log.warnings().empty());
  EXPECT_TRUE(register_dmabuf(*hca));
  EXPECT_EQ(verbs.data_direct_mrs(), 1);
}

TEST_F(DataDirectTest, HostMemory_IsRegisteredWithout) {
  const std::shared_ptr<HcaContext> hca = open_hca();
  char byte = 0;
  auto& cache = hca->registrations();
  Result<ibv_mr*> mr = cache.acquire({reinterpret_cast<uintptr_t>(&byte), 1}, PciOrdering::kStrict);
  ASSERT_TRUE(mr);
  EXPECT_EQ(verbs.data_direct_mrs(), 0);
  cache.release(*mr);
}

TEST_F(DataDirectTest, PathWithoutASlash_GetsOne) {
  config.data_direct_path = "devices/x";
  EXPECT_EQ(path(), "/sys/devices/x");
}

TEST_F(DataDirectTest, HcaOrProviderWithoutIt_HasNoPath) {
  const std::pair<const char*, void (*)(HcaConfig&)> cases[] = {
      {"without", [](HcaConfig& hca) { hca.data_direct_path = ""; }},
      {"of another provider", [](HcaConfig& hca) { hca.name = "mlx4_0"; }},
      {"without dma-bufs", [](HcaConfig& hca) { hca.dmabuf = false; }},
  };
  const HcaConfig with = config;
  for (const auto& [name, change] : cases) {
    config = with;
    change(config);
    EXPECT_EQ(path(), "") << name;
  }
  config = with;
  verbs.mutable_api().mlx5 = []() -> const verbs::Mlx5Api* { return nullptr; };
  EXPECT_EQ(path(), "") << "a provider that is too old";
}

// The HCA's driver may know dma-bufs, but not by mlx5's own call.
TEST_F(DataDirectTest, CallOfTheProviderIsNotSupported_HasNoPath) {
  EXPECT_EQ(path_where_it_fails<EOPNOTSUPP>(), "");
  EXPECT_EQ(path_where_it_fails<EPROTONOSUPPORT>(), "");
  EXPECT_EQ(path_where_it_fails<ENOSYS>(), "");
  EXPECT_NE(path_where_it_fails<EBADF>(), "") << "of the descriptor -1";
}

TEST_F(DataDirectTest, Off_IsNotLookedFor) {
  const std::shared_ptr<HcaContext> hca = open_hca(false);
  EXPECT_EQ(hca->data_direct_path(), "");
  EXPECT_TRUE(register_dmabuf(*hca));
  EXPECT_EQ(verbs.data_direct_mrs(), 0);
}

TEST_F(DataDirectTest, RegistrationFails_GoesWithoutAndWarnsOnce) {
  const std::shared_ptr<HcaContext> hca = open_hca();
  for (int i = 0; i < 2; ++i) {
    verbs.fail_call(Call::kRegDataDirectMr, EINVAL);
    EXPECT_TRUE(register_dmabuf(*hca));
  }
  EXPECT_EQ(verbs.data_direct_mrs(), 0);
  ASSERT_EQ(log.warnings().size(), 1u);
  EXPECT_NE(log.warnings()[0].find("mlx5_0: registering GPU memory with Data Direct failed"),
            std::string::npos);
  EXPECT_TRUE(register_dmabuf(*hca));
  EXPECT_EQ(verbs.data_direct_mrs(), 1);
}

}  // namespace
}  // namespace gdr::transport
