#include "transport/memory/registration_failure.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace gdr::transport {
namespace {

constexpr uint64_t kMebi = uint64_t{1} << 20;

// A machine on which GPUDirect works both ways.
SystemFacts sound_machine() {
  SystemFacts now;
  now.kernel = "6.1.0-18-amd64";
  now.hca_takes_dmabuf = true;
  now.driver_exports = true;
  now.bar1_bytes = uint64_t{128} << 30;
  now.module.kind = PeermemKind::kNvidiaPeermem;
  return now;
}

Attempt attempt(RegistrationPath way, int error, uint64_t bytes = kMebi) {
  return Attempt{way, false, error, bytes};
}

Explanation failed_export(const SystemFacts& now) {
  return explain(Attempt{RegistrationPath::kDmaBuf, true, 0, kMebi}, now);
}

// The words that an operator acts on.
testing::AssertionResult says(const Explanation& explanation, const std::string& in_text,
                              const std::string& in_mend) {
  bool text = explanation.text.find(in_text) != std::string::npos;
  bool fix = explanation.fix.find(in_mend) != std::string::npos;
  if (text && fix) return testing::AssertionSuccess();
  return testing::AssertionFailure() << explanation.text << " | " << explanation.fix;
}

TEST(FailureReason, BeyondBar1_IsBar1EvenWithAMemoryLock) {
  for (RegistrationPath way : {RegistrationPath::kDmaBuf, RegistrationPath::kPeermem}) {
    for (int error : {ENOMEM, EINVAL}) {
      SystemFacts now = sound_machine();
      now.bar1_bytes = 64 * kMebi;
      now.registered_bytes = 60 * kMebi;
      now.memory_lock = 64 << 10;
      Explanation found = explain(attempt(way, error, 8 * kMebi), now);
      EXPECT_EQ(found.refusal, FailureReason::kBar1);
      EXPECT_TRUE(says(found, "8 MiB more in the GPU's BAR1 of 64 MiB (60 MiB", "Resizable BAR"));
    }
  }
}

TEST(FailureReason, NoMemoryWithALimit_IsTheLimit) {
  SystemFacts now = sound_machine();
  now.memory_lock = 64 << 10;
  Explanation found = explain(attempt(RegistrationPath::kPeermem, ENOMEM), now);
  EXPECT_EQ(found.refusal, FailureReason::kMemoryLock);
  EXPECT_TRUE(says(found, "memory-lock limit is 64 KiB", "ulimit -l unlimited"));
  now.memory_lock = 3 * kMebi;
  EXPECT_EQ(explain(attempt(RegistrationPath::kPeermem, ENOMEM), now).refusal,
            FailureReason::kBar1);
  now.pinned_bytes = 2 * kMebi + 1;
  EXPECT_EQ(explain(attempt(RegistrationPath::kPeermem, ENOMEM), now).refusal,
            FailureReason::kMemoryLock);
}

TEST(FailureReason, NoMemoryWithoutALimit_IsBar1) {
  SystemFacts now = sound_machine();
  EXPECT_EQ(explain(attempt(RegistrationPath::kDmaBuf, ENOMEM), now).refusal, FailureReason::kBar1);
  now.bar1_bytes.reset();
  EXPECT_TRUE(
      says(explain(attempt(RegistrationPath::kDmaBuf, ENOMEM), now), "of unknown size", "BAR"));
}

TEST(FailureReason, AddressRefused_DependsOnTheModule) {
  SystemFacts now = sound_machine();
  now.module.kind = PeermemKind::kAbsent;
  Explanation absent = explain(attempt(RegistrationPath::kPeermem, EFAULT), now);
  EXPECT_EQ(absent.refusal, FailureReason::kModuleAbsent);
  EXPECT_TRUE(says(absent, "not loaded", "modprobe nvidia-peermem"));
  now.module.kind = PeermemKind::kUnknown;
  now.module.sysfs_root = "/sys";
  Explanation unknown = explain(attempt(RegistrationPath::kPeermem, EFAULT), now);
  EXPECT_EQ(unknown.refusal, FailureReason::kModuleUnknown);
  EXPECT_TRUE(says(unknown, "no /sys/module", "mount /sys"));
  now.module.kind = PeermemKind::kNvPeerMem;
  Explanation legacy = explain(attempt(RegistrationPath::kPeermem, EFAULT), now);
  EXPECT_EQ(legacy.refusal, FailureReason::kModuleLegacy);
  EXPECT_TRUE(says(legacy, "out of support", "modprobe nvidia-peermem"));
  now.module.kind = PeermemKind::kNvidiaPeermem;
  Explanation loaded = explain(attempt(RegistrationPath::kPeermem, EFAULT), now);
  EXPECT_EQ(loaded.refusal, FailureReason::kOther);
  EXPECT_TRUE(says(loaded, "is loaded and refused", "kernel's log"));
}

TEST(FailureReason, NoDmabufRegistration_OldKernelIsToldFromOldDriver) {
  SystemFacts now = sound_machine();
  now.hca_takes_dmabuf = false;
  Explanation driver = explain(attempt(RegistrationPath::kDmaBuf, EOPNOTSUPP), now);
  EXPECT_EQ(driver.refusal, FailureReason::kHcaWithoutDmabuf);
  EXPECT_TRUE(says(driver, "HCA's driver", "rdma-core"));
  now.kernel = "5.4.0-150-generic";
  Explanation kernel = explain(attempt(RegistrationPath::kDmaBuf, EPROTONOSUPPORT), now);
  EXPECT_EQ(kernel.refusal, FailureReason::kKernelWithoutDmabuf);
  EXPECT_TRUE(says(kernel, "Linux 5.4.0-150-generic", "5.12"));
}

TEST(FailureReason, FailedExport_TellsDriverMemoryAndDescriptorsApart) {
  SystemFacts now = sound_machine();
  EXPECT_EQ(failed_export(now).refusal, FailureReason::kMemoryWithoutDmabuf);
  EXPECT_TRUE(says(failed_export(now), "of this allocation", "gpuDirectRDMACapable"));
  now.driver_exports = false;
  EXPECT_EQ(failed_export(now).refusal, FailureReason::kDriverWithoutDmabuf);
  EXPECT_TRUE(says(failed_export(now), "of this GPU", "open kernel modules"));
  now.file_descriptors_exhausted = true;
  EXPECT_EQ(failed_export(now).refusal, FailureReason::kFileDescriptors);
  EXPECT_TRUE(says(failed_export(now), "no file descriptor left", "ulimit -n"));
  EXPECT_EQ(explain(attempt(RegistrationPath::kDmaBuf, EMFILE), now).refusal,
            FailureReason::kFileDescriptors);
}

TEST(FailureReason, AnythingElse_NamesTheError) {
  Explanation found = explain(attempt(RegistrationPath::kDmaBuf, EIO), sound_machine());
  EXPECT_EQ(found.refusal, FailureReason::kOther);
  EXPECT_TRUE(says(found, "errno 5", ""));
}

TEST(FailureReason, KernelReleases_AreReadAsNumbers) {
  EXPECT_FALSE(kernel_has_dmabuf("5.11.22"));
  EXPECT_FALSE(kernel_has_dmabuf("4.18.0-513.el8.x86_64"));
  EXPECT_TRUE(kernel_has_dmabuf("5.12.0"));
  EXPECT_TRUE(kernel_has_dmabuf("6.1.0-18-amd64"));
  EXPECT_TRUE(kernel_has_dmabuf("10.0"));
  EXPECT_TRUE(kernel_has_dmabuf("custom"));
}

}  // namespace
}  // namespace gdr::transport
