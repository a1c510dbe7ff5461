#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/checks/nvidia_files_for_tests.h"
#include "tests/unit/topology/machines.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using transport::Peermem;
using transport::PeermemKind;

const Peermem kPeermemLoaded{PeermemKind::kNvidiaPeermem, "/sys", "module/nvidia_peermem/version",
                             "570.133.20"};
const Peermem kPeermemAbsent{PeermemKind::kAbsent, "/sys", "", ""};
const topology::Bdf kGpu = *topology::Bdf::parse("0000:1a:00.0");

// One GPU with open modules on Linux 6.8 and one HCA with dma-buf and without nvidia-peermem.
struct RegistrationHost : MadeHost {
  explicit RegistrationHost(const std::string& version_file = kOpenModules) {
    add_driven_gpu(this, version_file);
    host.is_live = true;
    host.gpus.verbs_has_dmabuf = true;
    host.gpus.hcas["mlx5_0"] = {true, kPeermemAbsent};
  }
  Verdict verdict() const { return verdict_of(memory_registration(), host); }
  Observation first() const { return memory_registration().run(host).front(); }
};

TEST(MemoryRegistration, DmabufWithoutPeermem_IsOk) {
  RegistrationHost made;
  EXPECT_EQ(made.verdict(), Verdict::kOk);
  EXPECT_THAT(made.first().evidence,
              HasSubstr("registered by dma-buf: NVIDIA's open kernel modules"));
  made.host.gpus.gpus[kGpu].exports_dmabuf = true;
  EXPECT_THAT(made.first().evidence, HasSubstr("CUDA exports dma-bufs (open kernel modules 570"));
}

TEST(MemoryRegistration, PeermemWithProprietaryModules_IsOk) {
  RegistrationHost made(kProprietaryModules);
  made.host.gpus.hcas["mlx5_0"] = {true, kPeermemLoaded};
  EXPECT_EQ(made.verdict(), Verdict::kOk);
  EXPECT_THAT(made.first().evidence, HasSubstr("nvidia-peermem 570.133.20 is loaded"));
}

TEST(MemoryRegistration, ProprietaryModulesWithoutPeermem_IsAFailureWithAStep) {
  RegistrationHost made(kProprietaryModules);
  EXPECT_EQ(made.verdict(), Verdict::kFailure);
  const Observation seen = made.first();
  EXPECT_EQ(seen.subject, "mlx5_0");
  EXPECT_THAT(seen.evidence, HasSubstr("modules are the proprietary ones"));
  EXPECT_THAT(seen.evidence, HasSubstr("nvidia-peermem is not loaded"));
  ASSERT_EQ(seen.steps.size(), 1u);
  EXPECT_EQ(seen.steps[0].command, "modprobe nvidia-peermem");
  EXPECT_EQ(seen.steps[0].undo, "modprobe -r nvidia-peermem");
}

TEST(MemoryRegistration, EachConditionOfDmabuf_IsNamedWhereItFails) {
  RegistrationHost made;
  made.host.gpus.gpus[kGpu].exports_dmabuf = false;
  EXPECT_THAT(made.first().evidence, HasSubstr("CUDA exports no dma-buf of 0000:1a:00.0"));
  made.host.gpus.gpus.clear();
  made.host.gpus.hcas["mlx5_0"].dmabuf = false;
  EXPECT_THAT(made.first().evidence, HasSubstr("the HCA's driver registers none"));
  made.write("/proc/sys/kernel/osrelease", "5.4.0-150-generic\n");
  EXPECT_THAT(made.first().evidence, HasSubstr("Linux 5.4.0-150-generic registers none"));
  made.host.gpus.verbs_has_dmabuf = false;
  EXPECT_THAT(made.first().evidence, HasSubstr("libibverbs has no ibv_reg_dmabuf_mr"));
  EXPECT_EQ(made.verdict(), Verdict::kFailure);
}

// Kernels of distributions have taken dma-buf over into releases before 5.12.
TEST(MemoryRegistration, OldKernelThatRegistersDmabufs_IsOk) {
  RegistrationHost made;
  made.write("/proc/sys/kernel/osrelease", "4.18.0-553.el8.x86_64\n");
  EXPECT_EQ(made.verdict(), Verdict::kOk);
}

TEST(MemoryRegistration, KernelWithoutPeerMemoryInterface_GetsNoStep) {
  RegistrationHost made(kProprietaryModules);
  made.write("/proc/kallsyms", "0000000000000000 T ib_register_client\t[ib_core]\n");
  EXPECT_EQ(made.verdict(), Verdict::kFailure);
  EXPECT_TRUE(made.first().steps.empty());
  EXPECT_THAT(made.first().fix, Not(HasSubstr("modprobe")));
  made.write("/proc/kallsyms",
             "0 T ib_register_client\t[ib_core]\n0 T ib_register_peer_memory_client\t[ib_core]\n");
  EXPECT_EQ(made.first().steps.size(), 1u);
}

TEST(MemoryRegistration, Container_GetsNoStepSinceModulesAreTheHosts) {
  RegistrationHost made(kProprietaryModules);
  made.host.process.container = Container::kKubernetes;
  EXPECT_EQ(made.verdict(), Verdict::kFailure);
  EXPECT_TRUE(made.first().steps.empty());
  EXPECT_THAT(made.first().fix, HasSubstr("on the host of this container"));
}

TEST(MemoryRegistration, SettingThatSwitchesOffWhatWorks_IsAFailure) {
  RegistrationHost made;
  made.host.environment["NCCL_DMABUF_ENABLE"] = "0";
  EXPECT_EQ(made.verdict(), Verdict::kFailure);
  EXPECT_THAT(made.first().fix, HasSubstr("unset NCCL_DMABUF_ENABLE"));
  made.host.gpus.hcas["mlx5_0"].peermem = kPeermemLoaded;
  EXPECT_EQ(made.verdict(), Verdict::kOk);
  made.host.environment = {{"GDR_NCCL_GPU_MEMORY", "dmabuf"}, {"NCCL_DMABUF_ENABLE", "0"}};
  EXPECT_EQ(made.verdict(), Verdict::kFailure);
  EXPECT_THAT(made.first().evidence, HasSubstr("GDR_NCCL_GPU_MEMORY switches off"));
}

TEST(MemoryRegistration, GpuWithoutGpuDirect_IsAFailure) {
  RegistrationHost made;
  made.host.gpus.gpus[kGpu].gpudirect = false;
  EXPECT_EQ(made.verdict(), Verdict::kFailure);
  EXPECT_THAT(made.first().evidence, HasSubstr("GPU_DIRECT_RDMA_SUPPORTED"));
}

TEST(MemoryRegistration, CopyOfAMachine_IsUnknownUnlessItsFilesExcludeBoth) {
  RegistrationHost made;
  made.host.is_live = false;
  made.host.gpus = {};
  made.host.inspection = topo::Inspection{topology::scene_of(topology::flat(1, 1)), {}, "/sys"};
  EXPECT_EQ(made.verdict(), Verdict::kUnknown);
  made.write("/proc/driver/nvidia/version", kProprietaryModules);
  EXPECT_EQ(made.verdict(), Verdict::kFailure);
  made.write("/sys/module/nvidia_peermem/version", "535.104.05\n");
  EXPECT_EQ(made.verdict(), Verdict::kOk);
}

TEST(MemoryRegistration, OnlyTheHcasOfRails_Count) {
  RegistrationHost made;
  made.host.inspection = topo::Inspection{topology::scene_of(topology::flat(1, 1)), {}, "/sys"};
  made.host.gpus.hcas["irdma0"] = {false, kPeermemAbsent};
  EXPECT_EQ(made.verdict(), Verdict::kOk);
}

TEST(MemoryRegistration, WithoutGpuOrHca_IsOk) {
  RegistrationHost made;
  made.host.gpus.hcas.clear();
  EXPECT_EQ(made.verdict(), Verdict::kNothing);
  EXPECT_EQ(verdict_of(memory_registration(), MadeHost().host), Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor
