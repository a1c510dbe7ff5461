#include "transport/gpu/refusal.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace gdr::gpu {
namespace {

constexpr uint64_t kMebi = uint64_t{1} << 20;

// A machine on which GPUDirect works both ways.
Circumstances sound_machine() {
  Circumstances now;
  now.kernel = "6.1.0-18-amd64";
  now.hca_takes_dmabuf = true;
  now.driver_exports = true;
  now.bar1_bytes = uint64_t{128} << 30;
  now.module.kind = PeermemKind::kNvidiaPeermem;
  return now;
}

Attempt attempt(MemoryWay way, int error, uint64_t bytes = kMebi) {
  return Attempt{way, false, error, bytes};
}

Explanation failed_export(const Circumstances& now) {
  return explain(Attempt{MemoryWay::kDmaBuf, true, 0, kMebi}, now);
}

// The words that an operator acts on.
testing::AssertionResult says(const Explanation& explanation, const std::string& in_text,
                              const std::string& in_mend) {
  bool text = explanation.text.find(in_text) != std::string::npos;
  bool mend = explanation.mend.find(in_mend) != std::string::npos;
  if (text && mend) return testing::AssertionSuccess();
  return testing::AssertionFailure() << explanation.text << " | " << explanation.mend;
}

TEST(Refusal, BeyondBar1_IsBar1EvenWithAMemoryLock) {
  for (MemoryWay way : {MemoryWay::kDmaBuf, MemoryWay::kPeermem}) {
    for (int error : {ENOMEM, EINVAL}) {
      Circumstances now = sound_machine();
      now.bar1_bytes = 64 * kMebi;
      now.registered_bytes = 60 * kMebi;
      now.memory_lock = 64 << 10;
      Explanation found = explain(attempt(way, error, 8 * kMebi), now);
      EXPECT_EQ(found.refusal, Refusal::kBar1);
      EXPECT_TRUE(says(found, "8 MiB more in the GPU's BAR1 of 64 MiB (60 MiB", "Resizable BAR"));
    }
  }
}

TEST(Refusal, NoMemoryWithALimit_IsTheLimit) {
  Circumstances now = sound_machine();
  now.memory_lock = 64 << 10;
  Explanation found = explain(attempt(MemoryWay::kPeermem, ENOMEM), now);
  EXPECT_EQ(found.refusal, Refusal::kMemoryLock);
  EXPECT_TRUE(says(found, "memory-lock limit is 64 KiB", "ulimit -l unlimited"));
  now.memory_lock = 3 * kMebi;
  EXPECT_EQ(explain(attempt(MemoryWay::kPeermem, ENOMEM), now).refusal, Refusal::kBar1);
  now.pinned_bytes = 2 * kMebi + 1;
  EXPECT_EQ(explain(attempt(MemoryWay::kPeermem, ENOMEM), now).refusal, Refusal::kMemoryLock);
}

TEST(Refusal, NoMemoryWithoutALimit_IsBar1) {
  Circumstances now = sound_machine();
  EXPECT_EQ(explain(attempt(MemoryWay::kDmaBuf, ENOMEM), now).refusal, Refusal::kBar1);
  now.bar1_bytes.reset();
  EXPECT_TRUE(says(explain(attempt(MemoryWay::kDmaBuf, ENOMEM), now), "of unknown size", "BAR"));
}

TEST(Refusal, AddressRefused_DependsOnTheModule) {
  Circumstances now = sound_machine();
  now.module.kind = PeermemKind::kAbsent;
  Explanation absent = explain(attempt(MemoryWay::kPeermem, EFAULT), now);
  EXPECT_EQ(absent.refusal, Refusal::kModuleAbsent);
  EXPECT_TRUE(says(absent, "not loaded", "modprobe nvidia-peermem"));
  now.module.kind = PeermemKind::kUnknown;
  now.module.sysfs_root = "/sys";
  Explanation unknown = explain(attempt(MemoryWay::kPeermem, EFAULT), now);
  EXPECT_EQ(unknown.refusal, Refusal::kModuleUnknown);
  EXPECT_TRUE(says(unknown, "no /sys/module", "mount /sys"));
  now.module.kind = PeermemKind::kNvPeerMem;
  Explanation legacy = explain(attempt(MemoryWay::kPeermem, EFAULT), now);
  EXPECT_EQ(legacy.refusal, Refusal::kModuleLegacy);
  EXPECT_TRUE(says(legacy, "out of support", "modprobe nvidia-peermem"));
  now.module.kind = PeermemKind::kNvidiaPeermem;
  Explanation loaded = explain(attempt(MemoryWay::kPeermem, EFAULT), now);
  EXPECT_EQ(loaded.refusal, Refusal::kOther);
  EXPECT_TRUE(says(loaded, "is loaded and refused", "kernel's log"));
}

TEST(Refusal, NoDmabufRegistration_OldKernelIsToldFromOldDriver) {
  Circumstances now = sound_machine();
  now.hca_takes_dmabuf = false;
  Explanation driver = explain(attempt(MemoryWay::kDmaBuf, EOPNOTSUPP), now);
  EXPECT_EQ(driver.refusal, Refusal::kHcaWithoutDmabuf);
  EXPECT_TRUE(says(driver, "HCA's driver", "rdma-core"));
  now.kernel = "5.4.0-150-generic";
  Explanation kernel = explain(attempt(MemoryWay::kDmaBuf, EPROTONOSUPPORT), now);
  EXPECT_EQ(kernel.refusal, Refusal::kKernelWithoutDmabuf);
  EXPECT_TRUE(says(kernel, "Linux 5.4.0-150-generic", "5.12"));
}

TEST(Refusal, FailedExport_TellsDriverMemoryAndDescriptorsApart) {
  Circumstances now = sound_machine();
  EXPECT_EQ(failed_export(now).refusal, Refusal::kMemoryWithoutDmabuf);
  EXPECT_TRUE(says(failed_export(now), "of this allocation", "gpuDirectRDMACapable"));
  now.driver_exports = false;
  EXPECT_EQ(failed_export(now).refusal, Refusal::kDriverWithoutDmabuf);
  EXPECT_TRUE(says(failed_export(now), "of this GPU", "open kernel modules"));
  now.file_descriptors_exhausted = true;
  EXPECT_EQ(failed_export(now).refusal, Refusal::kFileDescriptors);
  EXPECT_TRUE(says(failed_export(now), "no file descriptor left", "ulimit -n"));
  EXPECT_EQ(explain(attempt(MemoryWay::kDmaBuf, EMFILE), now).refusal, Refusal::kFileDescriptors);
}

TEST(Refusal, AnythingElse_NamesTheError) {
  Explanation found = explain(attempt(MemoryWay::kDmaBuf, EIO), sound_machine());
  EXPECT_EQ(found.refusal, Refusal::kOther);
  EXPECT_TRUE(says(found, "errno 5", ""));
}

TEST(Refusal, KernelReleases_AreReadAsNumbers) {
  EXPECT_FALSE(kernel_has_dmabuf("5.11.22"));
  EXPECT_FALSE(kernel_has_dmabuf("4.18.0-513.el8.x86_64"));
  EXPECT_TRUE(kernel_has_dmabuf("5.12.0"));
  EXPECT_TRUE(kernel_has_dmabuf("6.1.0-18-amd64"));
  EXPECT_TRUE(kernel_has_dmabuf("10.0"));
  EXPECT_TRUE(kernel_has_dmabuf("custom"));
}

}  // namespace
}  // namespace gdr::gpu
