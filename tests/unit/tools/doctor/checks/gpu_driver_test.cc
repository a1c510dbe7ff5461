#include "tests/unit/tools/doctor/checks/nvidia_files_for_tests.h"

namespace gdr::tools::doctor {
namespace {

TEST(NvidiaDriver, EachCase_HasItsVerdict) {
  const auto gpu_of = [](const char* driver, const char* module) {
    return [=](MadeHost* made) {
      made->write(std::string("/sys/module/") + module + "/refcnt", "0\n");
      add_nvidia_gpu(made, "0000:1a:00.0", driver);
    };
  };
  const auto undriven = [](bool is_installed) {
    return [=](MadeHost* made) {
      made->write("/sys/module/ib_core/refcnt", "0\n");
      made->write("/proc/sys/kernel/osrelease", "6.8.0\n");
      add_nvidia_gpu(made, "0000:1a:00.0", "");
      add_nvidia_gpu(made, "0000:3b:00.0", "");
      if (!is_installed) return;
      made->write("/lib/modules/6.8.0/modules.dep", "updates/dkms/nvidia.ko: kernel/a.ko\n");
    };
  };
  expect_worst<MadeHost>(
      "nvidia-driver",
      {{"open modules", [](MadeHost* made) { add_driven_gpu(made); }, Verdict::kOk, "",
        "NVIDIA's driver 570.133.20 is loaded, with the open kernel modules "
        "(/proc/driver/nvidia/version)"},
       {"proprietary modules", [](MadeHost* made) { add_driven_gpu(made, kProprietaryModules); },
        Verdict::kOk, "", "need nvidia-peermem"},
       {"not installed", undriven(false), Verdict::kFailure, "0000:1a:00.0", "",
        "install NVIDIA's driver", ""},
       {"installed and not loaded", undriven(true), Verdict::kFailure, "", "", "modprobe nvidia",
        "modprobe nvidia"},
       {"one GPU that the driver does not drive",
        [](MadeHost* made) {
          add_driven_gpu(made);
          add_nvidia_gpu(made, "0000:3b:00.0", "");
        },
        Verdict::kFailure, "0000:3b:00.0", "", "dmesg"},
       {"nouveau", gpu_of("nouveau", "nouveau"), Verdict::kFailure, "", "", "blacklist nouveau"},
       {"of a virtual machine", gpu_of("vfio-pci", "vfio_pci"), Verdict::kOk},
       {"no file", [](MadeHost*) {}, Verdict::kUnknown},
       {"no GPU",
        [](MadeHost* made) { made->write("/sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n"); },
        Verdict::kUnknown},
       {"GPU alone", [](MadeHost* made) { add_nvidia_gpu(made, "0000:1a:00.0", ""); },
        Verdict::kUnknown}});
}

// A machine whose CUDA driver and kernel module are of one release.
struct CudaHost : MadeHost {
  CudaHost() {
    add_driven_gpu(this);
    host.is_live = true;
    host.gpus.cuda = CudaLibrary{.path = "/usr/lib/libcuda.so.570.133.20",
                                 .release = "570.133.20",
                                 .version = 12080,
                                 .init_error = "",
                                 .lacks = ""};
  }
};

auto init_fails(int result, bool hides_gpus = false) {
  return [=](CudaHost* made) {
    made->host.gpus.cuda->init_result = result;
    made->host.gpus.cuda->init_error = "CUDA_ERROR_X";
    made->host.gpus.cuda->hides_gpus = hides_gpus;
  };
}

auto without_library(Container container) {
  return [container](CudaHost* made) {
    made->host.gpus.cuda.reset();
    made->host.gpus.cuda_error = "libcuda.so.1: cannot open shared object file";
    made->host.process.container = container;
  };
}

TEST(CudaDriver, EachCase_HasItsVerdict) {
  const char* fails = "cuInit fails with CUDA_ERROR_X";
  expect_worst<CudaHost>(
      "cuda-driver",
      {{"of the kernel module", [](CudaHost*) {}, Verdict::kOk, "",
        "/usr/lib/libcuda.so.570.133.20 is of CUDA 12.8, and the kernel module 570.133.20"},
       {"of forward compatibility",
        [](CudaHost* made) { made->host.gpus.cuda->release = "575.57.08"; }, Verdict::kOk, "",
        "forward compatibility"},
       {"stub", init_fails(34), Verdict::kFailure, "", fails, "stubs"},
       {"no device", init_fails(100), Verdict::kFailure, "", fails, "CUDA_VISIBLE_DEVICES"},
       {"not ready", init_fails(802), Verdict::kFailure, "", fails, "nvidia-fabricmanager"},
       {"mismatch", init_fails(803), Verdict::kFailure, "", fails, "restart"},
       {"no compatibility", init_fails(804), Verdict::kFailure, "", fails, "cuda-compat"},
       {"other error", init_fails(999), Verdict::kFailure, "", fails, "dmesg"},
       {"hidden GPUs", init_fails(100, true), Verdict::kUnknown},
       {"missing", without_library(Container::kNone), Verdict::kWarning},
       {"missing in a container", without_library(Container::kKubernetes), Verdict::kFailure, "",
        "", "--gpus all"},
       {"before CUDA 11.7",
        [](CudaHost* made) {
          made->host.gpus.cuda->lacks = "libcuda.so.1 lacks cuMemGetHandleForAddressRange";
        },
        Verdict::kWarning},
       {"copy of a machine", [](CudaHost* made) { made->host.is_live = false; },
        Verdict::kUnknown}});
  EXPECT_EQ(worst_of("cuda-driver", MadeHost().host).verdict, Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor
