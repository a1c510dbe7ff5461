#include "transport/memory/system_facts.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"
#include "drivers/cuda/cuda_driver.h"

namespace gdr::transport {
namespace {

// Whether CAP_IPC_LOCK exempts this process from the memory-lock limit.
bool is_exempt() {
  constexpr char kInitialUserNamespace[] = "user:[4026531837]";  // PROC_USER_INIT_INO of Linux
  std::error_code ignored;
  const auto own = std::filesystem::read_symlink("/proc/self/ns/user", ignored);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2]{};
  return own == kInitialUserNamespace && syscall(SYS_capget, &header, sets) == 0 &&
         (sets[0].effective >> CAP_IPC_LOCK & 1) != 0;
}

}  // namespace

SystemFacts read_system_facts(const HcaContext& hca, const GpuIdentity& gpu) {
  SystemFacts facts;
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (driver && gpu.device >= 0) {
    Result<bool> supported = driver->dmabuf_supported(gpu.device);
    if (supported) facts.driver_supports_dmabuf = *supported;
  }
  facts.memory_lock_limit = memory_lock_limit();
  facts.bar1_bytes = bar1_bytes(gpu.pci_id);
  facts.registered_bytes = hca.registrations().gpu_bytes();
  facts.file_descriptors_exhausted = file_descriptors_exhausted();
  facts.module = hca.peermem();
  return facts;
}

// The file has a line for each window: first address, last address, flags. Which of them is BAR1
// depends on the GPU's generation, but it is always the largest.
std::optional<uint64_t> bar1_bytes(const std::string& pci_id, const std::string& sysfs_root) {
  constexpr int kWindows = 6;
  constexpr uint64_t kIoPorts = 0x100;  // IORESOURCE_IO of linux/ioport.h
  if (pci_id.empty()) return {};
  std::ifstream file(sysfs_root + "/bus/pci/devices/" + pci_id + "/resource");
  uint64_t largest = 0, first = 0, last = 0, flags = 0;
  file >> std::hex;
  for (int i = 0; i < kWindows && file >> first >> last >> flags; ++i) {
    if (last > first && (flags & kIoPorts) == 0) largest = std::max(largest, last - first + 1);
  }
  if (largest == 0) return {};
  return largest;
}

std::optional<uint64_t> memory_lock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return is_exempt() ? std::nullopt : std::optional<uint64_t>(limit.rlim_cur);
}

// EAGAIN is that of a cgroup's limit (rdmacg_try_charge() of Linux), EOVERFLOW irdma's.
std::string lack_text(const HcaContext& hca, int err, std::optional<uint64_t> lock_limit) {
  if (err != ENOMEM && err != EAGAIN && err != ENOSPC && err != EOVERFLOW) return "";
  ibv_device_attr attr{};
  if (hca.api().query_device(hca.context(), &attr) != 0) return "";
  const std::string no_room =
      "the HCA has no room for more (it states max_qp " + std::to_string(attr.max_qp) +
      ", max_cq " + std::to_string(attr.max_cq) + ", max_mr " + std::to_string(attr.max_mr) + ")";
  const std::string fix =
      "lower GDR_NCCL_STANDBY_RAILS, NCCL_IB_QPS_PER_CONNECTION or NCCL_BUFFSIZE";
  if (err != ENOMEM) return ": " + no_room + ", or a cgroup's rdma.max is reached. Fix: " + fix;
  if (!lock_limit) return ": " + no_room + ", as memory may be locked without limit. Fix: " + fix;
  return ". Fix: raise the memory-lock limit of " + std::to_string(*lock_limit / 1024) +
         " KiB (ulimit -l unlimited; containers: IPC_LOCK); where that does not help, " + no_room +
         ": " + fix;
}

tl::unexpected<Error> fail_making(const HcaContext& hca, std::string text, int err) {
  auto failed = fail_errno(Code::kSystem, std::move(text), err);
  failed.value().text += lack_text(hca, err);
  return failed;
}

bool file_descriptors_exhausted() {
  UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fd.get() < 0 && (errno == EMFILE || errno == ENFILE);
}

}  // namespace gdr::transport
