#include "tests/unit/tools/doctor/checks/nvidia_files_for_tests.h"

namespace gdr::tools::doctor {
namespace {

using transport::Peermem;
using transport::PeermemKind;

const Peermem kPeermemLoaded{PeermemKind::kNvidiaPeermem, "module/nvidia_peermem/version",
                             "570.133.20"};
const Peermem kPeermemAbsent{PeermemKind::kAbsent, "", ""};
const Peermem kPeermemLegacy{PeermemKind::kNvPeerMem, "kernel/mm/memory_peers/nv_mem", "1.3"};
const topology::Bdf kGpu = *topology::Bdf::parse("0000:1a:00.0");

// One GPU with open modules on Linux 6.8 and one HCA with dma-buf and without nvidia-peermem.
struct RegistrationHost : MadeHost {
  RegistrationHost() {
    add_driven_gpu(this, kOpenModules);
    host.is_live = true;
    host.gpus.verbs_has_dmabuf = true;
    host.gpus.hcas["mlx5_0"] = {true, kPeermemAbsent};
  }
  void use_proprietary() { write("/proc/driver/nvidia/version", kProprietaryModules); }
};

// The HCA registers no dma-buf; what the kernel and the library say of that, too.
auto without_dmabuf(const char* kernel, bool has_function) {
  return [=](RegistrationHost* made) {
    made->host.gpus.hcas["mlx5_0"].dmabuf = false;
    made->host.gpus.verbs_has_dmabuf = has_function;
    if (*kernel != 0) made->write("/proc/sys/kernel/osrelease", kernel);
  };
}

auto proprietary(const char* kernel_symbols = "", Container container = Container::kNone) {
  return [=](RegistrationHost* made) {
    made->use_proprietary();
    made->host.process.container = container;
    if (*kernel_symbols != 0) made->write("/proc/kallsyms", kernel_symbols);
  };
}

auto switched(const config::Environment& environment, const Peermem& peermem) {
  return [=](RegistrationHost* made) {
    made->host.environment = environment;
    made->host.gpus.hcas["mlx5_0"].peermem = peermem;
  };
}

auto exports(bool has_dmabuf) {
  return [=](RegistrationHost* made) { made->host.gpus.gpus[kGpu].exports_dmabuf = has_dmabuf; };
}

// The files of a machine with a topology.
auto copied(bool is_proprietary, bool has_peermem) {
  return [=](RegistrationHost* made) {
    made->host.is_live = false;
    made->host.gpus = {};
    made->add_gpus(1);
    if (is_proprietary) made->use_proprietary();
    if (has_peermem) made->write("/sys/module/nvidia_peermem/version", "535.104.05\n");
  };
}

// Kernels of distributions have taken dma-buf over into releases before 5.12.
TEST(MemoryRegistration, EachCase_HasItsVerdict) {
  const std::string load = "modprobe nvidia-peermem";
  const config::Environment no_dmabuf = {{"NCCL_DMABUF_ENABLE", "0"}};
  const char* no_peers = "0000000000000000 T ib_register_client\t[ib_core]\n";
  const char* peers =
      "0 T ib_register_client\t[ib_core]\n0 T ib_register_peer_memory_client\t[ib_core]\n";
  expect_worst<RegistrationHost>(
      "memory-registration",
      {{"dma-buf", [](RegistrationHost*) {}, Verdict::kOk, "",
        "registered by dma-buf: NVIDIA's open kernel modules"},
       {"dma-buf by CUDA", exports(true), Verdict::kOk, "",
        "CUDA exports dma-bufs (open kernel modules 570"},
       {"nvidia-peermem",
        [](RegistrationHost* made) {
          made->use_proprietary();
          made->host.gpus.hcas["mlx5_0"] = {true, kPeermemLoaded};
        },
        Verdict::kOk, "", "nvidia-peermem 570.133.20 is loaded"},
       {"nv_peer_mem",
        [](RegistrationHost* made) {
          made->use_proprietary();
          made->host.gpus.hcas["mlx5_0"] = {false, kPeermemLegacy};
        },
        Verdict::kWarning, "mlx5_0", "nv_peer_mem 1.3 is loaded", "out of support"},
       {"neither", proprietary(), Verdict::kFailure, "mlx5_0", "modules are the proprietary ones",
        "", load},
       {"nvidia-peermem not loaded", proprietary(), Verdict::kFailure, "",
        "nvidia-peermem is not loaded"},
       {"not exported by CUDA", exports(false), Verdict::kFailure, "",
        "CUDA exports no dma-buf of 0000:1a:00.0"},
       {"not registered by the HCA", without_dmabuf("", true), Verdict::kFailure, "",
        "the HCA's driver registers none"},
       {"not registered by the kernel", without_dmabuf("5.4.0-150-generic\n", true),
        Verdict::kFailure, "", "Linux 5.4.0-150-generic registers none"},
       {"not known by libibverbs", without_dmabuf("5.4.0-150-generic\n", false), Verdict::kFailure,
        "", "libibverbs has no ibv_reg_dmabuf_mr"},
       {"old kernel that registers",
        [](RegistrationHost* made) {
          made->write("/proc/sys/kernel/osrelease", "4.18.0-553.el8.x86_64\n");
        },
        Verdict::kOk},
       {"kernel without peer memory", proprietary(no_peers), Verdict::kFailure, "", "",
        "the HCA's drivers of DOCA-Host, which accept nvidia-peermem", ""},
       {"kernel with peer memory", proprietary(peers), Verdict::kFailure, "", "", "", load},
       {"container", proprietary("", Container::kKubernetes), Verdict::kFailure, "", "",
        "on the host of this container", ""},
       {"dma-buf switched off", switched(no_dmabuf, kPeermemAbsent), Verdict::kFailure, "", "",
        "unset NCCL_DMABUF_ENABLE"},
       {"dma-buf switched off beside nvidia-peermem", switched(no_dmabuf, kPeermemLoaded),
        Verdict::kOk},
       {"both switched off",
        switched({{"GDR_NCCL_GPU_MEMORY", "dmabuf"}, {"NCCL_DMABUF_ENABLE", "0"}}, kPeermemLoaded),
        Verdict::kFailure, "", "GDR_NCCL_GPU_MEMORY switches off"},
       {"GPU without GPUDirect RDMA",
        [](RegistrationHost* made) { made->host.gpus.gpus[kGpu].gpudirect = false; },
        Verdict::kFailure, "", "GPU_DIRECT_RDMA_SUPPORTED"},
       {"copied", copied(false, false), Verdict::kUnknown},
       {"copied, with proprietary modules", copied(true, false), Verdict::kFailure},
       {"copied, with nvidia-peermem", copied(true, true), Verdict::kOk},
       {"HCA without a rail",
        [](RegistrationHost* made) {
          made->add_gpus(1);
          made->host.gpus.hcas["irdma0"] = {false, kPeermemAbsent};
        },
        Verdict::kOk},
       {"no HCA", [](RegistrationHost* made) { made->host.gpus.hcas.clear(); },
        Verdict::kNothing}});
  EXPECT_EQ(worst_of("memory-registration", MadeHost().host).verdict, Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor
