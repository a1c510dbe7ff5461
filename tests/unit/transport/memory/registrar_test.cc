#include "transport/memory/registrar.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "drivers/cuda/cuda_driver.h"
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
  EXPECT_TRUE((*handle)->host);
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
  EXPECT_EQ(registrar->counts_text(), "1 by dma-buf, 0 by nvidia-peermem");
  const RegistrationCounts counts = registrar->counts().at("fake_a");
  EXPECT_THAT(counts.gpu, ElementsAre(1u, 0u));
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
  EXPECT_EQ(registrar->counts_text(), "0 by dma-buf, 1 by nvidia-peermem");
  EXPECT_THAT(log.warnings(), IsEmpty());
}

TEST_F(RegistrarTest, GpuDirectFails_IsAnErrorWithThePairTheReasonsAndTheFixes) {
  const int before = live();
  refuse_gpudirect();
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Code::kSystem);
  EXPECT_EQ(handle.error().sys_errno, EFAULT);
  for (const char* part :
       {"GPU 0000:1a:00.0 and fake_a: GPU memory of 1048576 bytes cannot be registered. dma-buf: ",
        "; nvidia-peermem: ", ". Fix: ", "; or: set NCCL_NET_GDR_LEVEL=LOC",
        "NCCL_NET_GDR_READ=0"}) {
    EXPECT_TRUE(contains(handle.error().text, part)) << handle.error().text;
  }
  EXPECT_EQ(live(), before);
  EXPECT_EQ(registrar->counts_text(), "");
}

// CUDA exports only whole pages as a dma-buf.
TEST_F(RegistrarTest, UnalignedGpuMemory_ItsWholePagesAreExported) {
  constexpr size_t kPage = 4096;
  MemoryRegion region{reinterpret_cast<uintptr_t>(gpu.get()) + kPage + 100, kPage, true};
  auto handle = register_region(region);
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_EQ(registrar->counts_text(), "1 by dma-buf, 0 by nvidia-peermem");
  const ibv_mr* mr = (*handle)->registrations.at(0).second;
  EXPECT_EQ(mr->addr, gpu.get() + kPage);
  EXPECT_EQ(mr->length, 2 * kPage);
}

// A registration by address does not use the dma-buf that NCCL passed.
TEST_F(RegistrarTest, DmabufOfNcclFails_PeermemDoesNotTryItAgain) {
  const UniqueFd dmabuf(open("/dev/null", O_RDONLY | O_CLOEXEC));
  MemoryRegion region{reinterpret_cast<uintptr_t>(gpu.get()), kRegionBytes, true, dmabuf.get()};
  refuse_gpudirect();
  EXPECT_FALSE(register_region(region)) << "a second attempt by dma-buf would have succeeded";
  auto handle = register_region(region);
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_EQ(registrar->counts_text(), "1 by dma-buf, 0 by nvidia-peermem");
}

}  // namespace
}  // namespace gdr::transport
