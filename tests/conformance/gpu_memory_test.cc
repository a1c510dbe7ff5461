// GPU memory through the plugin's table, over the software HCA and the fake CUDA driver. CTest runs
// this program once for each registration path, which the environment selects;
// GPU_MEMORY_TEST_FULL_BAR1 is set where the HCA refuses memory of 4 MiB and more.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/gpu_workspace.h"
#include "tests/fakes/cuda/fake_driver.h"
#include "tests/fakes/plugin_log.h"
#include "tools/net/plugin_loader.h"

namespace gdr::reference {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr auto kPatience = std::chrono::seconds(60);
constexpr size_t kHandleBytes = 128;

bool full_bar1() { return std::getenv("GPU_MEMORY_TEST_FULL_BAR1") != nullptr; }

constexpr char kRefusedUsersBuffer[] = "a user's buffer of 4194304 bytes cannot be registered";

// A buffer of a GPU or of the host: its address for the plugin, and a view of it for the CPU.
class Memory {
 public:
  // `device` is -1 for memory of the host.
  Memory(const fake_cuda::Driver& driver, int device, size_t bytes)
      : bytes_(bytes), host_(device < 0 ? bytes : 0) {
    if (device >= 0) gpu_.emplace(driver, device, bytes);
  }

  bool cuda() const { return gpu_.has_value(); }
  char* address() { return cuda() ? gpu_->get() : host_.data(); }
  uint8_t* view() { return reinterpret_cast<uint8_t*>(cuda() ? gpu_->view() : host_.data()); }
  size_t bytes() const { return bytes_; }

  void fill(size_t bytes, uint8_t value) { std::memset(view(), value, bytes); }
  bool holds(size_t bytes, uint8_t value) {
    return std::count(view(), view() + bytes, value) == static_cast<std::ptrdiff_t>(bytes);
  }

 private:
  size_t bytes_;
  std::optional<fake_cuda::DeviceBuffer> gpu_;
  std::vector<char> host_;
};

class GpuMemory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(cuda::CudaDriver::shared()) << cuda::CudaDriver::shared().error().text;
    auto gpu = cuda::GpuWorkspace::open(*cuda::CudaDriver::shared(), 0);
    ASSERT_TRUE(gpu) << gpu.error().text;
    gpu_ = std::make_unique<cuda::GpuWorkspace>(std::move(*gpu));
    ASSERT_TRUE(gpu_->set_current());
    auto plugin = tools::Plugin::load(TEST_PLUGIN);
    ASSERT_TRUE(plugin) << plugin.error().text;
    plugin_ = std::make_unique<tools::Plugin>(std::move(*plugin));
    tools::InitArguments settings;
    settings.logger = PluginLog::logger();
    ASSERT_EQ(net().init(settings, &context_), abi::ncclSuccess);
    tools::NetProperties properties;
    ASSERT_EQ(net().properties(0, &properties), abi::ncclSuccess);
    dmabuf_ = (properties.pointer_support & abi::kPtrDmaBuf) != 0;
    connect();
  }

  void TearDown() override {
    fake_.hooks.set_kernel_running(0);
    if (sender_ != nullptr) net().close_send(sender_);
    if (receiver_ != nullptr) net().close_recv(receiver_);
    if (listener_ != nullptr) net().close_listen(listener_);
    if (plugin_) net().finalize(context_);
  }

  tools::Net& net() const { return plugin_->net(); }

  void connect() {
    alignas(8) std::array<char, kHandleBytes> handle{};
    ASSERT_EQ(net().listen(context_, 1, handle.data(), &listener_), abi::ncclSuccess);
    auto until = std::chrono::steady_clock::now() + kPatience;
    while (sender_ == nullptr || receiver_ == nullptr) {
      if (sender_ == nullptr) {
        ASSERT_EQ(net().connect(context_, 0, handle.data(), &sender_), abi::ncclSuccess);
      }
      if (receiver_ == nullptr) {
        ASSERT_EQ(net().accept(listener_, &receiver_), abi::ncclSuccess);
      }
      ASSERT_LT(std::chrono::steady_clock::now(), until);
    }
  }

  // Registers as NCCL does: by dma-buf where the device supports it.
  void* try_register(void* comm, Memory& memory) {
    void* handle = nullptr;
    if (memory.cuda() && dmabuf_) {
      auto fd = cuda::export_dmabuf(memory.address(), memory.bytes());
      if (fd) {
        net().reg_mr_dmabuf(comm, memory.address(), memory.bytes(), abi::kPtrCuda, 0, fd->get(),
                            &handle);
        return handle;
      }
    }
    net().reg_mr(comm, memory.address(), memory.bytes(),
                 memory.cuda() ? abi::kPtrCuda : abi::kPtrHost, &handle);
    return handle;
  }

  // Memory that one end has registered.
  struct Registered : Memory {
    Registered(GpuMemory* test, void* end, int device, size_t bytes)
        : Memory(test->fake_, device, bytes),
          net(test->net()),
          comm(end),
          handle(test->try_register(end, *this)) {
      EXPECT_NE(handle, nullptr);
    }
    ~Registered() { net.dereg_mr(comm, handle); }

    tools::Net& net;
    void* comm;
    void* handle;
  };

  bool is_done(void* request, int* sizes) {
    int done = 0;
    EXPECT_EQ(net().test(request, &done, sizes), abi::ncclSuccess);
    return done != 0;
  }

  // Calls it until it returns true.
  template <class Step>
  void repeat_until(Step&& step) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!step()) ASSERT_LT(std::chrono::steady_clock::now(), until);
  }

  // Moves one message into a receive buffer of its size.
  void move(Registered& from, Registered& to, size_t bytes) {
    void* data = to.address();
    void *phandle = nullptr, *receive = nullptr, *send = nullptr;
    int tag = 7, size = -1;
    bool received = false, sent = false;
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!received || !sent) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      if (receive == nullptr) {
        ASSERT_EQ(net().irecv(receiver_, 1, &data, &bytes, &tag, &to.handle, &phandle, &receive),
                  abi::ncclSuccess);
      }
      if (send == nullptr) {
        ASSERT_EQ(net().isend(sender_, from.address(), bytes, tag, from.handle, phandle, &send),
                  abi::ncclSuccess);
      }
      received = received || (receive != nullptr && is_done(receive, &size));
      sent = sent || (send != nullptr && is_done(send, nullptr));
    }
    EXPECT_EQ(size, static_cast<int>(bytes));
  }

  const fake_cuda::Driver& fake_ = fake_cuda::Driver::load();
  std::unique_ptr<cuda::GpuWorkspace> gpu_;
  std::unique_ptr<tools::Plugin> plugin_;
  void* context_ = nullptr;
  bool dmabuf_ = false;
  void* listener_ = nullptr;
  void* sender_ = nullptr;
  void* receiver_ = nullptr;
};

TEST_F(GpuMemory, Flush_ReturnsARequestThatCompletes) {
  Registered from(this, sender_, 0, 4096), to(this, receiver_, 1, 4096);
  move(from, to, 4096);
  void* data = to.address();
  int size = 4096;
  void* flush = nullptr;
  ASSERT_EQ(net().iflush(receiver_, 1, &data, &size, &to.handle, &flush), abi::ncclSuccess);
  ASSERT_NE(flush, nullptr);
  repeat_until([&] { return is_done(flush, nullptr); });
}

TEST_F(GpuMemory, RegisterAndDeregister_LeaksNoDescriptor) {
  auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  Memory memory(fake_, 0, 1 << 20);
  net().dereg_mr(sender_, try_register(sender_, memory));
  auto before = open_files();
  for (int i = 0; i < 100; ++i) {
    void* one = try_register(sender_, memory);
    void* same = try_register(sender_, memory);
    ASSERT_TRUE(one != nullptr && same != nullptr);
    net().dereg_mr(sender_, one);
    net().dereg_mr(sender_, same);
  }
  EXPECT_EQ(open_files(), before);
}

// NCCL registers users' buffers while collectives run, and continues without where that fails.
TEST_F(GpuMemory, RegistrationWhileAKernelRuns_NeverWaits) {
  Registered from(this, sender_, 0, 1 << 20), to(this, receiver_, 1, 1 << 20);
  Memory later(fake_, 0, 4 << 20);
  from.fill(100, 1);
  move(from, to, 100);
  fake_.hooks.set_kernel_running(1);
  void* later_handle = try_register(sender_, later);
  EXPECT_EQ(later_handle == nullptr, full_bar1());
  from.fill(1000, 2);
  move(from, to, 1000);
  EXPECT_TRUE(to.holds(1000, 2));
  fake_.hooks.set_kernel_running(0);
  if (later_handle != nullptr) net().dereg_mr(sender_, later_handle);
  EXPECT_THAT(PluginLog::warnings("regMr"), IsEmpty());
  EXPECT_THAT(PluginLog::warnings(kRefusedUsersBuffer), SizeIs(full_bar1() ? 1 : 0));
}

// Each GPU's buffer is the connection's own, since nothing else is registered with it then.
TEST_F(GpuMemory, NcclsOwnBuffer_IsRegisteredOrAnErrorThatNamesThePair) {
  for (int gpu : {0, 1, 0}) {
    Memory memory(fake_, gpu, 6 << 20);
    std::vector<void*> handles;
    for (int i = 0; i < 4; ++i) {
      handles.push_back(try_register(sender_, memory));
      ASSERT_EQ(handles.back() == nullptr, full_bar1());
    }
    for (void* handle : handles) net().dereg_mr(sender_, handle);
  }
  for (std::string gpu : {"0000:1a:00.0", "0000:1b:00.0"}) {
    const std::string refused = "GPU " + gpu + " and softhca0: GPU memory of 6291456 bytes cannot";
    EXPECT_EQ(PluginLog::warnings(refused).empty(), !full_bar1());
  }
  if (full_bar1()) return;
  EXPECT_THAT(PluginLog::warnings(), IsEmpty());
}

}  // namespace
}  // namespace gdr::reference
