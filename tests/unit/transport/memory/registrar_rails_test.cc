// The choice of the registration path for a connection of two rails, over fakes of verbs and CUDA.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "tests/fakes/cuda/fake_driver.h"
#include "tests/fakes/recorded_log.h"
#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/memory/registrar.h"

namespace gdr::transport {
namespace {

constexpr size_t kRailBytes = 1 << 20;

bool has_text(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A connection of two rails, and a buffer on GPU 0.
class RegistrarRailsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"fake_0", "fake_1"}) {
      ibv_device* device = verbs_.add_hca(fake_verbs::HcaConfig::infiniband(name, 1));
      scope_.hcas.push_back(HcaContext::open(verbs_.api(), device).value());
    }
  }

  Registrar make_registrar() const {
    return Registrar(std::make_shared<const MemoryOptions>(options_));
  }
  MemoryRegion gpu_region() const {
    return {.address = reinterpret_cast<uintptr_t>(gpu_.get()), .bytes = kRailBytes, .cuda = true};
  }
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

  const fake_cuda::Driver& cuda_ = fake_cuda::Driver::load();
  const bool initialised_ = cuda::CudaDriver::shared().has_value();
  fake_cuda::DeviceBuffer gpu_{cuda_, 0, kRailBytes};
  fake_verbs::FakeVerbs verbs_;
  RecordedLog log_;
  MemoryOptions options_;
  OwnAllocations own_;
  RegistrationScope scope_{{}, &own_, /*sends=*/true};
};

TEST_F(RegistrarRailsTest, HostMemory_IsRegisteredOnEveryRail) {
  Registrar registrar = make_registrar();
  std::vector<char> buffer(kRailBytes);
  const MemoryRegion region{reinterpret_cast<uintptr_t>(buffer.data()), kRailBytes};
  auto handle = registrar.register_memory(scope_, region).value();
  EXPECT_TRUE(handle->host);
  EXPECT_EQ(handle->registrations.size(), 2u);
  EXPECT_NE(handle->keys[0].rkey, handle->keys[1].rkey);
  EXPECT_EQ(verbs_.live().mrs, 2);
  EXPECT_EQ(registrar.counts_text(), "");
  handle.reset();
  EXPECT_EQ(verbs_.live().mrs, 0);
}

TEST_F(RegistrarRailsTest, HcaIsGone_ConnectionGoesOnWithoutItsRail) {
  Registrar registrar = make_registrar();
  std::vector<size_t> lost;
  scope_.lose_rail = [&](size_t rail) {
    lost.push_back(rail);
    return true;
  };
  std::vector<char> buffer(kRailBytes);
  const MemoryRegion host{reinterpret_cast<uintptr_t>(buffer.data()), kRailBytes};
  for (int error : {EIO, ENODEV, ENOLINK, ENXIO}) {
    lose_hca_with(error);
    auto of_host = registrar.register_memory(scope_, host);
    ASSERT_TRUE(of_host) << error << ": " << of_host.error().text;
    EXPECT_EQ((*of_host)->keys[0].rkey, 0u);
    EXPECT_NE((*of_host)->keys[1].rkey, 0u);
  }
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, ENODEV);
  lose_hca_with(ENODEV);
  auto of_gpu = registrar.register_memory(scope_, gpu_region()).value();
  EXPECT_EQ(of_gpu->keys[0].rkey, 0u);
  EXPECT_NE(of_gpu->keys[1].rkey, 0u);
  EXPECT_EQ(lost, (std::vector<size_t>{0, 0, 0, 0, 0}));
}

// The kernel finds that it does not know the GPU's address before it comes to the HCA.
TEST_F(RegistrarRailsTest, HcaIsGoneAndPeermemIsMissing_GpuMemoryIsRegisteredOnTheOtherRail) {
  Registrar registrar = make_registrar();
  scope_.lose_rail = [](size_t rail) { return rail == 0; };
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EIO);
  verbs_.fail_call(fake_verbs::Call::kRegMr, EFAULT);
  verbs_.fail_call(fake_verbs::Call::kQueryDevice, EIO);
  auto of_gpu = registrar.register_memory(scope_, gpu_region()).value();
  EXPECT_EQ(of_gpu->keys[0].rkey, 0u);
  EXPECT_NE(of_gpu->keys[1].rkey, 0u);
}

TEST_F(RegistrarRailsTest, HcaIsGone_ConnectionCannotGoOn_IsAnError) {
  Registrar registrar = make_registrar();
  std::vector<char> buffer(kRailBytes);
  const MemoryRegion region{reinterpret_cast<uintptr_t>(buffer.data()), kRailBytes};
  scope_.lose_rail = [](size_t) { return false; };
  lose_hca_with(EIO);
  EXPECT_FALSE(registrar.register_memory(scope_, region));
  // Any other failure is one of the memory.
  scope_.lose_rail = [](size_t) { return true; };
  verbs_.fail_call(fake_verbs::Call::kRegMr, ENOMEM);
  EXPECT_FALSE(registrar.register_memory(scope_, region));
}

TEST_F(RegistrarRailsTest, StandbyRailCannotRegister_ConnectionGoesOnWithoutIt) {
  Registrar registrar = make_registrar();
  std::vector<size_t> dropped;
  scope_.drop_standby = [&](size_t rail, const Error& why) {
    dropped.push_back(rail);
    EXPECT_TRUE(has_text(why.text, "fake_1") || has_text(why.text, "nvidia-peermem")) << why.text;
    return rail == 1;
  };
  std::vector<char> buffer(kRailBytes);
  const MemoryRegion host{reinterpret_cast<uintptr_t>(buffer.data()), kRailBytes};
  verbs_.fail_call(fake_verbs::Call::kRegMr, ENOMEM, /*skip=*/1);
  auto of_host = registrar.register_memory(scope_, host).value();
  EXPECT_NE(of_host->keys[0].rkey, 0u);
  EXPECT_EQ(of_host->keys[1].rkey, 0u);
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, ENOMEM, /*skip=*/1);
  verbs_.fail_call(fake_verbs::Call::kRegMr, ENOMEM);
  auto of_gpu = registrar.register_memory(scope_, gpu_region()).value();
  EXPECT_EQ(of_gpu->keys[1].rkey, 0u);
  fake_cuda::DeviceBuffer users(cuda_, 0, 2 * kRailBytes);
  const MemoryRegion region{reinterpret_cast<uintptr_t>(users.get()), 2 * kRailBytes, true};
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, ENOMEM, /*skip=*/1);
  verbs_.fail_call(fake_verbs::Call::kRegMr, ENOMEM);
  EXPECT_TRUE(registrar.register_memory(scope_, region)) << "nor is a user's buffer declined";
  EXPECT_EQ(dropped, (std::vector<size_t>{1, 1, 1}));
  of_gpu.reset();
  fail_gpudirect();
  EXPECT_FALSE(registrar.register_memory(scope_, gpu_region())) << "the active rail is no standby";
}

TEST_F(RegistrarRailsTest, RailGivenUp_NothingIsRegisteredThere) {
  Registrar registrar = make_registrar();
  scope_.hcas[1] = nullptr;
  std::vector<char> buffer(kRailBytes);
  const MemoryRegion host{reinterpret_cast<uintptr_t>(buffer.data()), kRailBytes};
  auto of_host = registrar.register_memory(scope_, host).value();
  auto of_gpu = registrar.register_memory(scope_, gpu_region()).value();
  EXPECT_EQ(verbs_.live().mrs, 2);
  EXPECT_EQ(of_host->keys[1].rkey, 0u);
  EXPECT_EQ(of_gpu->keys[1].rkey, 0u);
}

// A GPU's driver that cannot pin the memory may answer so, too.
TEST_F(RegistrarRailsTest, OneRegistrationFailsAsOnALostHca_HcaAnswers_IsAFailureOfTheMemory) {
  Registrar registrar = make_registrar();
  scope_.lose_rail = [](size_t) { return true; };
  std::vector<char> buffer(kRailBytes);
  const MemoryRegion host{reinterpret_cast<uintptr_t>(buffer.data()), kRailBytes};
  verbs_.fail_call(fake_verbs::Call::kRegMr, EIO);
  EXPECT_FALSE(registrar.register_memory(scope_, host));
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EIO);
  verbs_.fail_call(fake_verbs::Call::kRegMr, EIO);
  EXPECT_FALSE(registrar.register_memory(scope_, gpu_region()));
}

TEST_F(RegistrarRailsTest, GpuMemory_DmabufFailsOnOneRail_TakesPeermemThere) {
  Registrar registrar = make_registrar();
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EOPNOTSUPP);
  auto handle = registrar.register_memory(scope_, gpu_region()).value();
  EXPECT_EQ(registrar.counts_text(), "1 by dma-buf, 1 by nvidia-peermem");
}

TEST_F(RegistrarRailsTest, GpuMemory_DmabufExcluded_TakesPeermem) {
  options_.gpu_memory.dmabuf = false;
  Registrar registrar = make_registrar();
  auto handle = registrar.register_memory(scope_, gpu_region()).value();
  EXPECT_EQ(registrar.counts_text(), "0 by dma-buf, 2 by nvidia-peermem");
}

TEST_F(RegistrarRailsTest, GpuMemory_OneRailWithoutGpuDirect_IsAnErrorThatNamesIt) {
  Registrar registrar = make_registrar();
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EOPNOTSUPP, 1);
  verbs_.fail_call(fake_verbs::Call::kRegMr, EFAULT);
  auto handle = registrar.register_memory(scope_, gpu_region());
  ASSERT_FALSE(handle);
  EXPECT_TRUE(has_text(handle.error().text, "GPU 0000:1a:00.0 and fake_1: "));
  EXPECT_EQ(verbs_.live().mrs, 0);
}

// An exception between the registration with an HCA and the handle's would leave the memory pinned.
TEST_F(RegistrarRailsTest, LoggingThrows_NothingStaysRegistered) {
  Registrar registrar = make_registrar();
  log::set_sink(
      [](log::Level, unsigned long, const char*, int, const char*) { throw std::bad_alloc(); });
  EXPECT_THROW((void)registrar.register_memory(scope_, gpu_region()), std::bad_alloc);
  EXPECT_EQ(verbs_.live().mrs, 0);
}

TEST_F(RegistrarRailsTest, LoggingThrowsForAUsersBuffer_OnlyNcclsOwnStaysRegistered) {
  Registrar registrar = make_registrar();
  auto own = registrar.register_memory(scope_, gpu_region()).value();
  fake_cuda::DeviceBuffer users(cuda_, 0, 2 * kRailBytes);
  verbs_.fail_call(fake_verbs::Call::kRegDmabufMr, EOPNOTSUPP);  // the other path is logged, too
  log::set_sink(
      [](log::Level, unsigned long, const char*, int, const char*) { throw std::bad_alloc(); });
  const MemoryRegion region{reinterpret_cast<uintptr_t>(users.get()), 2 * kRailBytes, true};
  EXPECT_THROW((void)registrar.register_memory(scope_, region), std::bad_alloc);
  EXPECT_EQ(verbs_.live().mrs, 2);
}

TEST_F(RegistrarRailsTest, Handle_HasRoomForEveryRegistrationFromTheStart) {
  Registrar registrar = make_registrar();
  std::vector<char> buffer(kRailBytes);
  const MemoryRegion region{reinterpret_cast<uintptr_t>(buffer.data()), kRailBytes};
  auto handle = registrar.register_memory(scope_, region).value();
  EXPECT_EQ(handle->registrations.size(), 2u);
  EXPECT_EQ(handle->registrations.capacity(), 2u) << "that it does not grow";
}

TEST_F(RegistrarRailsTest, WhyNotDirect_NamesEveryPathAndItsFix) {
  const std::string text = why_not_direct(*scope_.hcas[0], {.dmabuf = false});
  EXPECT_TRUE(has_text(text, "dma-buf: disabled by GDR_NCCL_GPU_MEMORY"));
  EXPECT_TRUE(has_text(text, "nvidia-peermem: "));
  EXPECT_TRUE(has_text(text, "modprobe nvidia-peermem"));
}

}  // namespace
}  // namespace gdr::transport
