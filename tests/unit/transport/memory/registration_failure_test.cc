#include "transport/memory/registration_failure.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace gdr::transport {
namespace {

constexpr uint64_t kMebi = uint64_t{1} << 20;

// A machine on which GPUDirect works by either path.
SystemFacts sound_machine() {
  SystemFacts facts;
  facts.kernel = "6.1.0-18-amd64";
  facts.hca_supports_dmabuf = true;
  facts.driver_supports_dmabuf = true;
  facts.bar1_bytes = uint64_t{128} << 30;
  facts.module.kind = PeermemKind::kNvidiaPeermem;
  return facts;
}

Attempt attempt(RegistrationPath path, int error, uint64_t bytes = kMebi) {
  return Attempt{path, false, error, bytes};
}

RegistrationFailure failed_export(const SystemFacts& facts) {
  return explain(Attempt{RegistrationPath::kDmaBuf, true, 0, kMebi}, facts);
}

// The words that an operator acts on.
testing::AssertionResult names(const RegistrationFailure& failure, const std::string& in_text,
                               const std::string& in_fix) {
  bool text = failure.finding.text.find(in_text) != std::string::npos;
  bool fix = failure.finding.fix.find(in_fix) != std::string::npos;
  if (text && fix) return testing::AssertionSuccess();
  return testing::AssertionFailure() << failure.finding.text << " | " << failure.finding.fix;
}

TEST(RegistrationFailure, BeyondBar1_IsBar1EvenWithAMemoryLock) {
  for (RegistrationPath path : {RegistrationPath::kDmaBuf, RegistrationPath::kPeermem}) {
    for (int error : {ENOMEM, EINVAL}) {
      SystemFacts facts = sound_machine();
      facts.bar1_bytes = 64 * kMebi;
      facts.registered_bytes = 60 * kMebi;
      facts.memory_lock_limit = 64 << 10;
      RegistrationFailure found = explain(attempt(path, error, 8 * kMebi), facts);
      EXPECT_EQ(found.reason, FailureReason::kBar1Full);
      EXPECT_TRUE(names(found, "8 MiB more in the GPU's BAR1 of 64 MiB (60 MiB", "Resizable BAR"));
    }
  }
}

TEST(RegistrationFailure, NoMemoryWithALimit_IsTheLimit) {
  SystemFacts facts = sound_machine();
  facts.memory_lock_limit = 64 << 10;
  RegistrationFailure found = explain(attempt(RegistrationPath::kPeermem, ENOMEM), facts);
  EXPECT_EQ(found.reason, FailureReason::kMemoryLockLimit);
  EXPECT_TRUE(names(found, "memory-lock limit is 64 KiB", "ulimit -l unlimited"));
  facts.memory_lock_limit = 3 * kMebi;
  EXPECT_EQ(explain(attempt(RegistrationPath::kPeermem, ENOMEM), facts).reason,
            FailureReason::kBar1Full);
  facts.pinned_bytes = 2 * kMebi + 1;
  EXPECT_EQ(explain(attempt(RegistrationPath::kPeermem, ENOMEM), facts).reason,
            FailureReason::kMemoryLockLimit);
}

TEST(RegistrationFailure, NoMemoryWithoutALimit_IsBar1) {
  SystemFacts facts = sound_machine();
  EXPECT_EQ(explain(attempt(RegistrationPath::kDmaBuf, ENOMEM), facts).reason,
            FailureReason::kBar1Full);
  facts.bar1_bytes.reset();
  EXPECT_TRUE(
      names(explain(attempt(RegistrationPath::kDmaBuf, ENOMEM), facts), "of unknown size", "BAR"));
}

TEST(RegistrationFailure, AddressRejected_DependsOnTheModule) {
  SystemFacts facts = sound_machine();
  facts.module.kind = PeermemKind::kAbsent;
  RegistrationFailure absent = explain(attempt(RegistrationPath::kPeermem, EFAULT), facts);
  EXPECT_EQ(absent.reason, FailureReason::kPeermemNotLoaded);
  EXPECT_TRUE(names(absent, "not loaded", "modprobe nvidia-peermem"));
  facts.module.kind = PeermemKind::kUnknown;
  facts.module.sysfs_root = "/sys";
  RegistrationFailure unknown = explain(attempt(RegistrationPath::kPeermem, EFAULT), facts);
  EXPECT_EQ(unknown.reason, FailureReason::kPeermemUnknown);
  EXPECT_TRUE(names(unknown, "no /sys/module", "mount /sys"));
  facts.module.kind = PeermemKind::kNvPeerMem;
  RegistrationFailure legacy = explain(attempt(RegistrationPath::kPeermem, EFAULT), facts);
  EXPECT_EQ(legacy.reason, FailureReason::kPeermemLegacy);
  EXPECT_TRUE(names(legacy, "out of support", "modprobe nvidia-peermem"));
  facts.module.kind = PeermemKind::kNvidiaPeermem;
  RegistrationFailure loaded = explain(attempt(RegistrationPath::kPeermem, EFAULT), facts);
  EXPECT_EQ(loaded.reason, FailureReason::kOther);
  EXPECT_TRUE(names(loaded, "is loaded and rejected", "kernel's log"));
}

TEST(RegistrationFailure, NoDmabufRegistration_DistinguishesOldKernelAndOldDriver) {
  SystemFacts facts = sound_machine();
  facts.hca_supports_dmabuf = false;
  RegistrationFailure driver = explain(attempt(RegistrationPath::kDmaBuf, EOPNOTSUPP), facts);
  EXPECT_EQ(driver.reason, FailureReason::kHcaWithoutDmabuf);
  EXPECT_TRUE(names(driver, "HCA's driver", "rdma-core"));
  facts.kernel = "5.4.0-150-generic";
  RegistrationFailure kernel = explain(attempt(RegistrationPath::kDmaBuf, EPROTONOSUPPORT), facts);
  EXPECT_EQ(kernel.reason, FailureReason::kKernelWithoutDmabuf);
  EXPECT_TRUE(names(kernel, "Linux 5.4.0-150-generic", "5.12"));
}

TEST(RegistrationFailure, FailedExport_DistinguishesDriverAllocationAndDescriptors) {
  SystemFacts facts = sound_machine();
  EXPECT_EQ(failed_export(facts).reason, FailureReason::kAllocationWithoutDmabuf);
  EXPECT_TRUE(names(failed_export(facts), "of this allocation", "gpuDirectRDMACapable"));
  facts.driver_supports_dmabuf = false;
  EXPECT_EQ(failed_export(facts).reason, FailureReason::kDriverWithoutDmabuf);
  EXPECT_TRUE(names(failed_export(facts), "of this GPU", "open kernel modules"));
  facts.file_descriptors_exhausted = true;
  EXPECT_EQ(failed_export(facts).reason, FailureReason::kFileDescriptorLimit);
  EXPECT_TRUE(names(failed_export(facts), "no file descriptor left", "ulimit -n"));
  EXPECT_EQ(explain(attempt(RegistrationPath::kDmaBuf, EMFILE), facts).reason,
            FailureReason::kFileDescriptorLimit);
}

TEST(RegistrationFailure, AnythingElse_NamesTheError) {
  RegistrationFailure found = explain(attempt(RegistrationPath::kDmaBuf, EIO), sound_machine());
  EXPECT_EQ(found.reason, FailureReason::kOther);
  EXPECT_TRUE(names(found, "errno 5", ""));
}

TEST(RegistrationFailure, Finding_NamesThePath) {
  Finding found = explain(attempt(RegistrationPath::kPeermem, EIO), sound_machine()).finding;
  EXPECT_EQ(found.subject, "nvidia-peermem");
  EXPECT_EQ(disabled_by_user(RegistrationPath::kDmaBuf).finding.subject, "dma-buf");
}

TEST(RegistrationFailure, JoinedText_NamesEachFixOnce) {
  Findings findings = {
      {FindingKind::kRegistration, Severity::kWarning, "dma-buf", "no room", "register less"},
      {FindingKind::kRegistration, Severity::kWarning, "nvidia-peermem", "no room",
       "register less"},
      {FindingKind::kRegistration, Severity::kWarning, "other", "lost", "find it"}};
  EXPECT_EQ(joined_text(findings),
            "dma-buf: no room; nvidia-peermem: no room; other: lost. "
            "Fix: register less; or: find it");
  EXPECT_EQ(joined_text({disabled_by_user(RegistrationPath::kPeermem).finding}),
            "nvidia-peermem: disabled by GDR_NCCL_GPU_MEMORY or NCCL_DMABUF_ENABLE");
}

}  // namespace
}  // namespace gdr::transport
