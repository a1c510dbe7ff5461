#include "transport/memory/registrar.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "tests/fakes/cuda/fake_driver.h"
#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kRegionBytes = 1 << 20;

struct RegistrarTest : testing::Test {
  CommPair pair;
  MemoryOptions options;
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  const bool initialised = cuda::CudaDriver::shared().has_value();
  fake_cuda::DeviceBuffer gpu{cuda, 0, kRegionBytes};
  std::vector<char> host = std::vector<char>(kRegionBytes);
  std::unique_ptr<Registrar> registrar;

  RecordedLog log;

  Result<std::unique_ptr<MemoryHandle>> register_region(const MemoryRegion& region) {
    if (registrar == nullptr) registrar = std::make_unique<Registrar>(shared(options));
    return registrar->register_memory(pair.sender->connection().registration_scope(), region);
  }
  auto register_host() {
    return register_region({reinterpret_cast<uintptr_t>(host.data()), kRegionBytes, false});
  }
  auto register_gpu() {
    return register_region({reinterpret_cast<uintptr_t>(gpu.get()), kRegionBytes, true});
  }
  // The next attempts by dma-buf and by nvidia-peermem fail.
  void refuse_gpudirect() {
    pair.verbs.fail_call(Call::kRegDmabufMr, EOPNOTSUPP);
    pair.verbs.fail_call(Call::kRegMr, EFAULT);
  }
  int live() const { return pair.verbs.live().mrs; }
};

TEST_F(RegistrarTest, HostMemory_IsRegisteredForTheLifeOfTheHandle) {
  const int before = live();
  auto handle = register_host();
  ASSERT_TRUE(handle);
  EXPECT_TRUE((*handle)->host && (*handle)->direct);
  EXPECT_EQ((*handle)->staging, nullptr);
  EXPECT_EQ(live(), before + 1);
  EXPECT_EQ(registrar->counts_text(), "") << "only GPU memory counts";
  EXPECT_EQ(registrar->counts().at("fake_a").host, 1u);
  handle->reset();
  EXPECT_EQ(live(), before);
}

TEST_F(RegistrarTest, HostMemoryFails_NamesSizeHcaAndLimit) {
  pair.verbs.fail_call(Call::kRegMr, ENOMEM);
  auto handle = register_host();
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Code::kSystem);
  EXPECT_EQ(handle.error().sys_errno, ENOMEM);
  EXPECT_TRUE(contains(handle.error().text, "fake_a")) << handle.error().text;
  EXPECT_TRUE(contains(handle.error().text, "ulimit -l")) << handle.error().text;
}

TEST_F(RegistrarTest, GpuMemory_GoesByDmabufFirst) {
  auto handle = register_gpu();
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_FALSE((*handle)->host);
  EXPECT_TRUE((*handle)->direct);
  EXPECT_EQ(registrar->counts_text(), "1 by dma-buf, 0 by nvidia-peermem, 0 staged");
  const RegistrationCounts counts = registrar->counts().at("fake_a");
  EXPECT_THAT(counts.gpu, ElementsAre(1u, 0u, 0u));
  EXPECT_EQ(counts.host, 0u);
}

TEST_F(RegistrarTest, PairOverPcie_ItsDmabufIsMappedOverPcie) {
  unsigned long before = cuda.hooks.pcie_mappings();
  options.over_pcie = {{"0000:1a:00.0", "another"}, {"0000:1b:00.0", "fake_a"}};
  EXPECT_TRUE(register_gpu());
  EXPECT_EQ(cuda.hooks.pcie_mappings(), before);
  registrar.reset();
  options.over_pcie.insert({"0000:1a:00.0", "fake_a"});
  EXPECT_TRUE(register_gpu());
  EXPECT_EQ(cuda.hooks.pcie_mappings(), before + 1);
}

TEST_F(RegistrarTest, DmabufFails_GoesByPeermem) {
  pair.verbs.fail_call(Call::kRegDmabufMr, EOPNOTSUPP);
  auto handle = register_gpu();
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_TRUE((*handle)->direct);
  EXPECT_EQ(registrar->counts_text(), "0 by dma-buf, 1 by nvidia-peermem, 0 staged");
  EXPECT_THAT(log.warnings(), IsEmpty());
}

TEST_F(RegistrarTest, GpuDirectFails_IsStagedAndLoggedOnce) {
  refuse_gpudirect();
  auto first = register_gpu();
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_FALSE((*first)->direct);
  EXPECT_EQ((*first)->direct_at_most, 0u);
  ASSERT_NE((*first)->staging, nullptr);
  EXPECT_NE((*first)->staging_keys[0].rkey, 0u);
  EXPECT_THAT(log.warnings(), ElementsAre(AllOf(HasSubstr("fake_a"), HasSubstr("staged"))));
  log.clear();
  refuse_gpudirect();
  auto second = register_gpu();
  ASSERT_TRUE(second);
  EXPECT_THAT(log.warnings(), IsEmpty());
  EXPECT_EQ(registrar->counts_text(), "0 by dma-buf, 0 by nvidia-peermem, 2 staged");
  EXPECT_THAT(registrar->counts().at("fake_a").gpu, ElementsAre(0u, 0u, 2u));
  EXPECT_EQ(registrar->counts().at("fake_a").host, 0u) << "bounce buffers are no users'";
}

TEST_F(RegistrarTest, Strict_GpuDirectFails_IsAnErrorWithTheReasons) {
  options.strict = true;
  const int before = live();
  refuse_gpudirect();
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  for (const char* part : {"GDR_NCCL_STRICT", "fake_a", "dma-buf", "nvidia-peermem"}) {
    EXPECT_TRUE(contains(handle.error().text, part)) << handle.error().text;
  }
  EXPECT_EQ(live(), before);
}

TEST_F(RegistrarTest, StagingExcluded_GpuDirectFails_IsAnErrorThatNamesTheVariable) {
  options.gpu_memory.staging = false;
  refuse_gpudirect();
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  EXPECT_TRUE(contains(handle.error().text, "GDR_NCCL_GPU_MEMORY")) << handle.error().text;
}

TEST_F(RegistrarTest, BounceBufferCannotBeRegistered_IsAnErrorAndLeavesNothing) {
  options.gpu_memory.peermem = false;
  const int before = live();
  refuse_gpudirect();
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  EXPECT_TRUE(contains(handle.error().text, "no GPUDirect")) << handle.error().text;
  EXPECT_EQ(live(), before);
}

// Page-locking waits for running kernels, one of which may wait for this connection. NCCL ends the
// job when one of its own buffers is refused.
TEST_F(RegistrarTest, TrafficHasStarted_StagingIsAnError) {
  pair.exchange(1);
  refuse_gpudirect();
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Code::kSystem);
  EXPECT_TRUE(contains(handle.error().text, "could deadlock")) << handle.error().text;
}

TEST_F(RegistrarTest, GpudirectLimit_HasBothTheMemoryAndABounceBuffer) {
  options.gpudirect_limit = 4096;
  const int before = live();
  auto handle = register_gpu();
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_TRUE((*handle)->direct);
  EXPECT_EQ((*handle)->direct_at_most, 4096u);
  EXPECT_NE((*handle)->staging, nullptr);
  EXPECT_EQ(live(), before + 2);
}

TEST_F(RegistrarTest, GpudirectLimitAboveOneWrite_OneWriteIsTheLimit) {
  const size_t one_write = pair.sender->connection().max_write_bytes();
  options.gpudirect_limit = 4 * one_write;
  auto handle = register_gpu();
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_EQ((*handle)->direct_at_most, one_write);
  EXPECT_NE((*handle)->staging, nullptr);
}

TEST_F(RegistrarTest, GpudirectLimitWhileTrafficRuns_EverythingGoesDirectly) {
  options.gpudirect_limit = 4096;
  pair.exchange(1);
  auto handle = register_gpu();
  ASSERT_TRUE(handle);
  EXPECT_EQ((*handle)->direct_at_most, pair.sender->connection().max_write_bytes());
  EXPECT_EQ((*handle)->staging, nullptr);
}

// CUDA exports only whole pages as a dma-buf.
TEST_F(RegistrarTest, UnalignedGpuMemory_ItsWholePagesAreExported) {
  constexpr size_t kPage = 4096;
  MemoryRegion region{reinterpret_cast<uintptr_t>(gpu.get()) + kPage + 100, kPage, true};
  auto handle = register_region(region);
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_EQ(registrar->counts_text(), "1 by dma-buf, 0 by nvidia-peermem, 0 staged");
  const ibv_mr* mr = (*handle)->registrations.at(0).second;
  EXPECT_EQ(mr->addr, gpu.get() + kPage);
  EXPECT_EQ(mr->length, 2 * kPage);
}

// A registration by address does not use the dma-buf that NCCL passed.
TEST_F(RegistrarTest, DmabufOfNcclFails_PeermemDoesNotTryItAgain) {
  options.strict = true;
  const UniqueFd dmabuf(open("/dev/null", O_RDONLY | O_CLOEXEC));
  MemoryRegion region{reinterpret_cast<uintptr_t>(gpu.get()), kRegionBytes, true, dmabuf.get()};
  refuse_gpudirect();
  EXPECT_FALSE(register_region(region)) << "a second attempt by dma-buf would have succeeded";
  auto handle = register_region(region);
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_EQ(registrar->counts_text(), "1 by dma-buf, 0 by nvidia-peermem, 0 staged");
}

}  // namespace
}  // namespace gdr::transport
