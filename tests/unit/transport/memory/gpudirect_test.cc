#include "transport/memory/gpudirect.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

namespace gdr::transport {
namespace {

constexpr uint64_t kMebi = uint64_t{1} << 20;

// A machine on which GPUDirect works by either path.
SystemFacts sound_machine() {
  SystemFacts facts;
  facts.driver_supports_dmabuf = true;
  facts.bar1_bytes = uint64_t{128} << 30;
  facts.module.kind = PeermemKind::kNvidiaPeermem;
  return facts;
}

Attempt attempt(RegistrationPath path, int error, uint64_t bytes = kMebi) {
  return Attempt{path, false, error, bytes};
}

// The words that an operator acts on.
testing::AssertionResult names(const TextAndFix& failure, const std::string& in_text,
                               const std::string& in_fix) {
  bool text = failure.text.find(in_text) != std::string::npos;
  bool fix = failure.fix.find(in_fix) != std::string::npos;
  if (text && fix) return testing::AssertionSuccess();
  return testing::AssertionFailure() << failure.text << " | " << failure.fix;
}

struct FailureCase {
  const char* name;
  void (*change)(SystemFacts&);  // of the sound machine
  Attempt attempt;
  const char* in_text;
  const char* in_fix;
};

constexpr auto kDmaBuf = RegistrationPath::kDmaBuf;
constexpr auto kPeermem = RegistrationPath::kPeermem;
constexpr Attempt kFailedExport{kDmaBuf, true, 0, kMebi};

void fill_bar1(SystemFacts& facts) {
  facts.bar1_bytes = 64 * kMebi;
  facts.registered_bytes = 60 * kMebi;
  facts.memory_lock_limit = 64 << 10;
}

const FailureCase kFailureCases[] = {
    {"BeyondBar1WithAMemoryLock", fill_bar1, attempt(kDmaBuf, ENOMEM, 8 * kMebi),
     "8 MiB more in the GPU's BAR1 of 64 MiB (60 MiB", "Resizable BAR"},
    {"BeyondBar1ByPeermem", fill_bar1, attempt(kPeermem, EINVAL, 8 * kMebi),
     "8 MiB more in the GPU's BAR1 of 64 MiB (60 MiB", "Resizable BAR"},
    {"NoMemoryWithALimit", [](SystemFacts& facts) { facts.memory_lock_limit = 64 << 10; },
     attempt(kPeermem, ENOMEM), "memory-lock limit is 64 KiB", "ulimit -l unlimited"},
    {"NoMemoryWithoutALimit", [](SystemFacts&) {}, attempt(kDmaBuf, ENOMEM), "GPU's BAR1", ""},
    {"Bar1OfUnknownSize", [](SystemFacts& facts) { facts.bar1_bytes.reset(); },
     attempt(kDmaBuf, ENOMEM), "of unknown size", "BAR"},
    {"PeermemAbsent", [](SystemFacts& facts) { facts.module.kind = PeermemKind::kAbsent; },
     attempt(kPeermem, EFAULT), "not loaded", "modprobe nvidia-peermem"},
    {"PeermemUnknown", [](SystemFacts& facts) { facts.module.kind = PeermemKind::kUnknown; },
     attempt(kPeermem, EFAULT), "no /sys/module", "modprobe nvidia-peermem"},
    {"PeermemLoaded", [](SystemFacts&) {}, attempt(kPeermem, EFAULT), "is loaded and rejected",
     "kernel's log"},
    {"HcaWithoutDmabuf", [](SystemFacts&) {}, attempt(kDmaBuf, EOPNOTSUPP), "HCA's driver",
     "rdma-core"},
    {"AllocationWithoutDmabuf", [](SystemFacts&) {}, kFailedExport, "of this allocation",
     "gpuDirectRDMACapable"},
    {"DriverWithoutDmabuf", [](SystemFacts& facts) { facts.driver_supports_dmabuf = false; },
     kFailedExport, "of this GPU", "open kernel modules"},
    {"DescriptorsExhausted",
     [](SystemFacts& facts) {
       facts.driver_supports_dmabuf = false;
       facts.file_descriptors_exhausted = true;
     },
     kFailedExport, "no file descriptor left", "ulimit -n"},
    {"TooManyFiles", [](SystemFacts&) {}, attempt(kDmaBuf, EMFILE), "no file descriptor left",
     "ulimit -n"},
    {"AnythingElse", [](SystemFacts&) {}, attempt(kDmaBuf, EIO), "errno 5", ""},
};

TEST(RegistrationFailure, FactsAndAttempt_DecideTextAndFix) {
  for (const FailureCase& one : kFailureCases) {
    SCOPED_TRACE(one.name);
    SystemFacts facts = sound_machine();
    one.change(facts);
    EXPECT_TRUE(names(explain(one.attempt, facts), one.in_text, one.in_fix));
  }
}

TEST(RegistrationFailure, JoinedText_NamesThePathsAndEachFixOnce) {
  const std::vector<TextAndFix> failures = {explain(attempt(kPeermem, EIO), sound_machine()),
                                            {"other: no room", "register less"},
                                            {"another: no room", "register less"}};
  EXPECT_EQ(joined_text(failures, "find it"),
            "nvidia-peermem: Input/output error, errno 5; other: no room; another: no room. "
            "Fix: register less; or: find it");
  EXPECT_EQ(joined_text({{"no room", ""}}), "no room");
}

}  // namespace
}  // namespace gdr::transport
