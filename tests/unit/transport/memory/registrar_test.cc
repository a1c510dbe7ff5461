#include "transport/memory/registrar.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <cerrno>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "drivers/cuda/cuda_driver.h"
#include "tests/fakes/cuda/fake_driver.h"
#include "tests/fakes/recorded_log.h"
#include "tests/fakes/verbs/fake_verbs.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

using testing::ElementsAre;

constexpr size_t kRailBytes = 1 << 20;

// A connection of two rails, and a buffer of the host and one on GPU 0.
class RegistrarTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"fake_0", "fake_1"}) {
      ibv_device* device = verbs_.add_hca(fake_verbs::HcaConfig::infiniband(name, 1));
      scope_.rails.push_back({HcaContext::open(verbs_.api(), device).value()});
    }
  }

  Result<std::unique_ptr<MemoryHandle>> register_region(const MemoryRegion& region) {
    if (!registrar_) registrar_.emplace(std::make_shared<const MemoryOptions>(options_));
    return registrar_->register_memory(scope_, region);
  }
  auto register_host() { return register_region({address_of(host_.data()), kRailBytes}); }
  auto register_gpu() { return register_region(gpu_region()); }
  MemoryRegion gpu_region() const { return {address_of(gpu_.get()), kRailBytes, /*cuda=*/true}; }
  template <class Byte>
  static uintptr_t address_of(const Byte* memory) {
    return reinterpret_cast<uintptr_t>(memory);
  }
  // The connection has the first rail alone.
  void use_one_rail() { scope_.rails.pop_back(); }
  // The next attempts by dma-buf and by nvidia-peermem fail as on a machine that supports neither.
  void fail_gpudirect() {
    verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EOPNOTSUPP);
    verbs_.fail_call(fake_verbs::Call::kRegMr, EFAULT);
  }
  // The next registration by address fails so, and so does what asks after the HCA then.
  void lose_hca_with(int error) {
    verbs_.fail_call(fake_verbs::Call::kRegMr, error);
    verbs_.fail_call(fake_verbs::Call::kQueryDevice, error);
  }
  // Of a connection that goes on without rails whose HCA is gone.
  AfterFailure after_failure(size_t rail) const {
    return scope_.rails[rail].hca->is_gone() ? AfterFailure::kGoOn : AfterFailure::kFail;
  }
  // How often each path was taken, over both HCAs.
  std::vector<uint64_t> gpu_counts() const {
    std::vector<uint64_t> sums(kRegistrationPathCount);
    for (const auto& [hca, counts] : registrar_->counts()) {
      for (size_t path = 0; path < sums.size(); ++path) sums[path] += counts.gpu[path];
    }
    return sums;
  }
  static void expect_only_second(const MemoryHandle& handle) {
    EXPECT_EQ(handle.keys[0].rkey, 0u);
    EXPECT_NE(handle.keys[1].rkey, 0u);
  }

  const fake_cuda::Driver& cuda_ = fake_cuda::Driver::load();
  const bool initialised_ = cuda::CudaDriver::shared().has_value();
  fake_cuda::DeviceBuffer gpu_{cuda_, 0, kRailBytes};
  std::vector<char> host_ = std::vector<char>(kRailBytes);
  fake_verbs::FakeVerbs verbs_;
  RecordedLog log_;
  MemoryOptions options_;
  OwnAllocations own_;
  RegistrationScope scope_{{}, &own_, /*sends=*/true};
  std::optional<Registrar> registrar_;
};

TEST_F(RegistrarTest, HostMemory_IsRegisteredOnEveryRail) {
  auto handle = register_host().value();
  EXPECT_TRUE(handle->host);
  EXPECT_EQ(handle->registrations.size(), 2u);
  EXPECT_EQ(handle->registrations.capacity(), 2u) << "that it does not grow";
  EXPECT_NE(handle->keys[0].rkey, handle->keys[1].rkey);
  EXPECT_EQ(verbs_.live().mrs, 2);
  EXPECT_THAT(gpu_counts(), ElementsAre(0u, 0u)) << "only GPU memory counts";
  EXPECT_EQ(registrar_->counts().at("fake_0").host, 1u);
  handle.reset();
  EXPECT_EQ(verbs_.live().mrs, 0);
}

TEST_F(RegistrarTest, HcaIsGone_ConnectionGoesOnWithoutItsRail) {
  std::vector<size_t> lost;
  scope_.on_failure = [&](size_t rail, auto...) {
    lost.push_back(rail);
    return after_failure(rail);
  };
  for (int error : {EIO, ENODEV, ENOLINK, ENXIO}) {
    lose_hca_with(error);
    auto of_host = register_host();
    ASSERT_TRUE(of_host) << error << ": " << of_host.error().text;
    expect_only_second(**of_host);
  }
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, ENODEV);
  lose_hca_with(ENODEV);
  auto of_gpu = register_gpu().value();
  expect_only_second(*of_gpu);
  // The kernel finds that it does not know the GPU's address before it comes to the HCA.
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EIO);
  verbs_.fail_call(fake_verbs::Call::kRegMr, EFAULT);
  verbs_.fail_call(fake_verbs::Call::kQueryDevice, EIO);
  auto without_peermem = register_gpu().value();
  expect_only_second(*without_peermem);
  EXPECT_EQ(lost, std::vector<size_t>(6));
}

TEST_F(RegistrarTest, HcaIsGone_ConnectionCannotGoOn_IsAnError) {
  lose_hca_with(EIO);
  EXPECT_FALSE(register_host());
  // Any other failure is one of the memory.
  scope_.on_failure = [&](size_t rail, auto...) { return after_failure(rail); };
  verbs_.fail_call(fake_verbs::Call::kRegMr, ENOMEM);
  EXPECT_FALSE(register_host());
}

TEST_F(RegistrarTest, StandbyRailCannotRegister_ConnectionGoesOnWithoutIt) {
  std::vector<size_t> dropped;
  scope_.on_failure = [&](size_t rail, size_t, const Error& why) {
    dropped.push_back(rail);
    EXPECT_TRUE(contains(why.text, "fake_1") || contains(why.text, "nvidia-peermem")) << why.text;
    return rail == 1 ? AfterFailure::kGoOn : AfterFailure::kFail;
  };
  verbs_.fail_call(fake_verbs::Call::kRegMr, ENOMEM, /*skip=*/1);
  auto of_host = register_host().value();
  EXPECT_NE(of_host->keys[0].rkey, 0u);
  EXPECT_EQ(of_host->keys[1].rkey, 0u);
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, ENOMEM, /*skip=*/1);
  verbs_.fail_call(fake_verbs::Call::kRegMr, ENOMEM);
  auto of_gpu = register_gpu().value();
  EXPECT_EQ(of_gpu->keys[1].rkey, 0u);
  fake_cuda::DeviceBuffer users(cuda_, 0, 2 * kRailBytes);
  const MemoryRegion region{reinterpret_cast<uintptr_t>(users.get()), 2 * kRailBytes, true};
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, ENOMEM, /*skip=*/1);
  verbs_.fail_call(fake_verbs::Call::kRegMr, ENOMEM);
  EXPECT_TRUE(register_region(region)) << "nor is a user's buffer declined";
  EXPECT_EQ(dropped, (std::vector<size_t>{1, 1, 1}));
  of_gpu.reset();
  fail_gpudirect();
  EXPECT_FALSE(register_gpu()) << "the active rail is no standby";
}

TEST_F(RegistrarTest, RailGivenUp_NothingIsRegisteredThere) {
  scope_.rails[1].hca = nullptr;
  auto of_host = register_host().value();
  auto of_gpu = register_gpu().value();
  EXPECT_EQ(verbs_.live().mrs, 2);
  EXPECT_EQ(of_host->keys[1].rkey, 0u);
  EXPECT_EQ(of_gpu->keys[1].rkey, 0u);
}

// A GPU's driver that cannot pin the memory may answer so, too.
TEST_F(RegistrarTest, OneRegistrationFailsAsOnALostHca_HcaAnswers_IsAFailureOfTheMemory) {
  scope_.on_failure = [&](size_t rail, auto...) { return after_failure(rail); };
  verbs_.fail_call(fake_verbs::Call::kRegMr, EIO);
  EXPECT_FALSE(register_host());
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EIO);
  verbs_.fail_call(fake_verbs::Call::kRegMr, EIO);
  EXPECT_FALSE(register_gpu());
}

TEST_F(RegistrarTest, GpuMemory_DmabufFailsOrIsExcluded_TakesPeermem) {
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EOPNOTSUPP);
  auto on_one_rail = register_gpu().value();
  EXPECT_THAT(gpu_counts(), ElementsAre(1u, 1u));
  registrar_.reset();
  options_.gpu_memory.dmabuf = false;
  auto handle = register_gpu().value();
  EXPECT_THAT(gpu_counts(), ElementsAre(0u, 2u));
}

TEST_F(RegistrarTest, GpuMemory_OneRailWithoutGpuDirect_IsAnErrorThatNamesIt) {
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EOPNOTSUPP, 1);
  verbs_.fail_call(fake_verbs::Call::kRegMr, EFAULT);
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  EXPECT_TRUE(contains(handle.error().text, "GPU 0000:1a:00.0 and fake_1: "));
  EXPECT_EQ(verbs_.live().mrs, 0);
}

// An exception between the registration with an HCA and the handle's would leave the memory pinned.
TEST_F(RegistrarTest, LoggingThrows_NothingStaysRegistered) {
  log::set_sink(
      [](log::Level, unsigned long, const char*, int, const char*) { throw std::bad_alloc(); });
  EXPECT_THROW((void)register_gpu(), std::bad_alloc);
  EXPECT_EQ(verbs_.live().mrs, 0);
}

TEST_F(RegistrarTest, LoggingThrowsForAUsersBuffer_OnlyNcclsOwnStaysRegistered) {
  auto own = register_gpu().value();
  fake_cuda::DeviceBuffer users(cuda_, 0, 2 * kRailBytes);
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EOPNOTSUPP);  // the other path is logged, too
  log::set_sink(
      [](log::Level, unsigned long, const char*, int, const char*) { throw std::bad_alloc(); });
  const MemoryRegion region{reinterpret_cast<uintptr_t>(users.get()), 2 * kRailBytes, true};
  EXPECT_THROW((void)register_region(region), std::bad_alloc);
  EXPECT_EQ(verbs_.live().mrs, 2);
}

TEST_F(RegistrarTest, HostMemoryFails_NamesSizeHcaAndLimit) {
  verbs_.fail_call(fake_verbs::Call::kRegMr, ENOMEM);
  auto handle = register_host();
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Code::kSystem);
  EXPECT_EQ(handle.error().sys_errno, ENOMEM);
  EXPECT_TRUE(contains_all(handle.error().text, {"fake_0", "it states max_qp "}));
}

TEST_F(RegistrarTest, GpuMemory_GoesByDmabufFirst) {
  use_one_rail();
  auto handle = register_gpu();
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_FALSE((*handle)->host);
  EXPECT_THAT(gpu_counts(), ElementsAre(1u, 0u));
  const RegistrationCounts counts = registrar_->counts().at("fake_0");
  EXPECT_THAT(counts.gpu, ElementsAre(1u, 0u));
  EXPECT_EQ(counts.host, 0u);
}

TEST_F(RegistrarTest, GpuDirectFails_IsAnErrorWithThePairTheReasonsAndTheFixes) {
  const int before = verbs_.live().mrs;
  fail_gpudirect();
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Code::kSystem);
  EXPECT_EQ(handle.error().sys_errno, EFAULT);
  EXPECT_TRUE(contains_all(
      handle.error().text,
      {"GPU 0000:1a:00.0 and fake_0: GPU memory of 1048576 bytes cannot be registered. dma-buf: ",
       "; nvidia-peermem: ", ". Fix: ", "; or: set NCCL_NET_GDR_LEVEL=LOC",
       "NCCL_NET_GDR_READ=0"}));
  EXPECT_EQ(verbs_.live().mrs, before);
  EXPECT_THAT(gpu_counts(), ElementsAre(0u, 0u));
}

// CUDA exports only whole pages as a dma-buf.
TEST_F(RegistrarTest, UnalignedGpuMemory_ItsWholePagesAreExported) {
  use_one_rail();
  constexpr size_t kPage = 4096;
  MemoryRegion region{address_of(gpu_.get()) + kPage + 100, kPage, true};
  auto handle = register_region(region);
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_THAT(gpu_counts(), ElementsAre(1u, 0u));
  const ibv_mr* mr = (*handle)->registrations.at(0).second;
  EXPECT_EQ(mr->addr, gpu_.get() + kPage);
  EXPECT_EQ(mr->length, 2 * kPage);
}

// A registration by address does not use the dma-buf that NCCL passed.
TEST_F(RegistrarTest, DmabufOfNcclFails_PeermemDoesNotTryItAgain) {
  use_one_rail();
  const UniqueFd dmabuf(open("/dev/null", O_RDONLY | O_CLOEXEC));
  MemoryRegion region{address_of(gpu_.get()), kRailBytes, true, dmabuf.get()};
  fail_gpudirect();
  EXPECT_FALSE(register_region(region)) << "a second attempt by dma-buf would have succeeded";
  auto handle = register_region(region);
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_THAT(gpu_counts(), ElementsAre(1u, 0u));
}

TEST_F(RegistrarTest, WhyNotDirect_NamesEveryPathAndItsFix) {
  const std::string text = why_not_direct(*scope_.rails[0].hca, {.dmabuf = false});
  EXPECT_TRUE(contains_all(text, {"dma-buf: disabled by GDR_NCCL_GPU_MEMORY",
                                  "nvidia-peermem: ", "modprobe nvidia-peermem"}));
}

}  // namespace
}  // namespace gdr::transport
