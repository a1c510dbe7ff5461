#include "transport/memory/registrar.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/log.h"
#include "tests/fakes/cuda/fake_driver.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;

constexpr size_t kBytes = 1 << 20;

std::string g_warnings;

struct RegistrarTest : testing::Test {
  CommPair pair;
  MemoryOptions options;
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  const bool initialised = cuda::CudaDriver::shared().has_value();
  fake_cuda::DeviceBuffer gpu{cuda, 0, kBytes};
  std::vector<char> host = std::vector<char>(kBytes);
  std::unique_ptr<Registrar> registrar;

  void SetUp() override {
    g_warnings.clear();
    log::set_sink([](log::Level level, unsigned long, const char*, int, const char* text) {
      if (level == log::Level::kWarn) g_warnings += std::string(text) + "\n";
    });
  }
  void TearDown() override { log::set_sink(nullptr); }

  Result<std::unique_ptr<MemoryHandle>> register_region(const void* address, bool cuda_memory) {
    if (registrar == nullptr) registrar = std::make_unique<Registrar>(shared(options));
    MemoryRegion region{reinterpret_cast<uintptr_t>(address), kBytes, cuda_memory};
    return registrar->register_memory(pair.sender->connection().registration_scope(), region);
  }
  auto register_host() { return register_region(host.data(), false); }
  auto register_gpu() { return register_region(gpu.get(), true); }
  // The next attempts by dma-buf and by nvidia-peermem fail.
  void refuse_gpudirect() {
    pair.verbs.fail_call(Call::kRegDmabufMr, EOPNOTSUPP);
    pair.verbs.fail_call(Call::kRegMr, EFAULT);
  }
  int live() const { return pair.verbs.live().mrs; }
};

TEST_F(RegistrarTest, HostMemory_IsRegisteredForTheLifeOfTheHandle) {
  const int before = live();
  auto handle = register_host();
  ASSERT_TRUE(handle);
  EXPECT_TRUE((*handle)->host && (*handle)->direct);
  EXPECT_EQ((*handle)->staging, nullptr);
  EXPECT_EQ(live(), before + 1);
  EXPECT_EQ(registrar->counts_text(), "") << "only GPU memory counts";
  handle->reset();
  EXPECT_EQ(live(), before);
}

TEST_F(RegistrarTest, HostMemoryFails_NamesSizeHcaAndLimit) {
  pair.verbs.fail_call(Call::kRegMr, ENOMEM);
  auto handle = register_host();
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Code::kSystem);
  EXPECT_EQ(handle.error().sys_errno, ENOMEM);
  EXPECT_TRUE(contains(handle.error().text, "fake_a")) << handle.error().text;
  EXPECT_TRUE(contains(handle.error().text, "ulimit -l")) << handle.error().text;
}

TEST_F(RegistrarTest, GpuMemory_GoesByDmabufFirst) {
  auto handle = register_gpu();
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_FALSE((*handle)->host);
  EXPECT_TRUE((*handle)->direct);
  EXPECT_EQ(registrar->counts_text(), "1 by dma-buf, 0 by nvidia-peermem, 0 staged");
}

TEST_F(RegistrarTest, DmabufFails_GoesByPeermem) {
  pair.verbs.fail_call(Call::kRegDmabufMr, EOPNOTSUPP);
  auto handle = register_gpu();
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_TRUE((*handle)->direct);
  EXPECT_EQ(registrar->counts_text(), "0 by dma-buf, 1 by nvidia-peermem, 0 staged");
  EXPECT_EQ(g_warnings, "");
}

TEST_F(RegistrarTest, GpuDirectFails_IsStagedAndLoggedOnce) {
  refuse_gpudirect();
  auto first = register_gpu();
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_FALSE((*first)->direct);
  EXPECT_EQ((*first)->direct_at_most, 0u);
  ASSERT_NE((*first)->staging, nullptr);
  EXPECT_NE((*first)->staging_keys[0].rkey, 0u);
  EXPECT_TRUE(contains(g_warnings, "fake_a")) << g_warnings;
  EXPECT_TRUE(contains(g_warnings, "staged")) << g_warnings;
  g_warnings.clear();
  refuse_gpudirect();
  auto second = register_gpu();
  ASSERT_TRUE(second);
  EXPECT_EQ(g_warnings, "");
  EXPECT_EQ(registrar->counts_text(), "0 by dma-buf, 0 by nvidia-peermem, 2 staged");
}

TEST_F(RegistrarTest, Strict_GpuDirectFails_IsAnErrorWithTheReasons) {
  options.strict = true;
  const int before = live();
  refuse_gpudirect();
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  for (const char* part : {"GDR_NCCL_STRICT", "fake_a", "dma-buf", "nvidia-peermem"}) {
    EXPECT_TRUE(contains(handle.error().text, part)) << handle.error().text;
  }
  EXPECT_EQ(live(), before);
}

TEST_F(RegistrarTest, StagingExcluded_GpuDirectFails_IsAnErrorThatNamesTheVariable) {
  options.gpu_memory.staging = false;
  refuse_gpudirect();
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  EXPECT_TRUE(contains(handle.error().text, "GDR_NCCL_GPU_MEMORY")) << handle.error().text;
}

TEST_F(RegistrarTest, BounceBufferCannotBeRegistered_IsAnErrorAndLeavesNothing) {
  options.gpu_memory.peermem = false;
  const int before = live();
  refuse_gpudirect();
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  EXPECT_TRUE(contains(handle.error().text, "no GPUDirect")) << handle.error().text;
  EXPECT_EQ(live(), before);
}

// Page-locking waits for running kernels, one of which may wait for this connection.
TEST_F(RegistrarTest, TrafficHasStarted_StagingIsDeclined) {
  pair.exchange(1);
  refuse_gpudirect();
  auto handle = register_gpu();
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Code::kDeclined);
}

TEST_F(RegistrarTest, GpudirectLimit_HasBothTheMemoryAndABounceBuffer) {
  options.gpudirect_limit = 4096;
  const int before = live();
  auto handle = register_gpu();
  ASSERT_TRUE(handle) << handle.error().text;
  EXPECT_TRUE((*handle)->direct);
  EXPECT_EQ((*handle)->direct_at_most, 4096u);
  EXPECT_NE((*handle)->staging, nullptr);
  EXPECT_EQ(live(), before + 2);
}

TEST_F(RegistrarTest, GpudirectLimitWhileTrafficRuns_EverythingGoesDirectly) {
  options.gpudirect_limit = 4096;
  pair.exchange(1);
  auto handle = register_gpu();
  ASSERT_TRUE(handle);
  EXPECT_EQ((*handle)->direct_at_most, SIZE_MAX);
  EXPECT_EQ((*handle)->staging, nullptr);
}

struct StagedTransfer : RegistrarTest {
  static constexpr size_t kMost = 5 << 20;
  fake_cuda::DeviceBuffer source{cuda, 0, kMost};
  fake_cuda::DeviceBuffer target{cuda, 1, kMost};
  Registrar staging{[] {
    MemoryOptions only;
    only.gpu_memory = RegistrationPaths::parse("staging").value();
    return shared(only);
  }()};
  std::unique_ptr<MemoryHandle> from = stage(*pair.sender, source);
  std::unique_ptr<MemoryHandle> to = stage(*pair.receiver, target);

  template <class Comm>
  std::unique_ptr<MemoryHandle> stage(Comm& comm, const fake_cuda::DeviceBuffer& buffer) {
    MemoryRegion region{reinterpret_cast<uintptr_t>(buffer.get()), kMost, true};
    return staging.register_memory(comm.connection().registration_scope(), region).value();
  }
  Request* irecv(size_t bytes) { return pair.irecv({{target.get(), bytes, 0, to.get()}}); }
  Request* isend(size_t bytes) {
    Request* request = nullptr;
    EXPECT_TRUE(pair.sender->isend(source.get(), bytes, 0, *from, &request));
    return request;
  }
  // Copies run in threads of the fake driver.
  static bool completes(Request* request) {
    return wait_for([&] {
      Outcome outcome = test_once(request);
      return outcome.done || !outcome.alive;
    });
  }
  bool both_complete(Request* receive, Request* send) {
    bool received = false;
    bool sent = false;
    return wait_for([&] {
      received = received || test_once(receive).done;
      sent = sent || test_once(send).done;
      return received && sent;
    });
  }
};

TEST_F(StagedTransfer, BothEndsStaged_DataArrivesInOrderedChunks) {
  const size_t chunk = wire::kMinChunkBytes;
  for (size_t bytes : {size_t{0}, size_t{1}, chunk, chunk + 1, 3 * chunk, kMost - 3}) {
    for (size_t i = 0; i < bytes; ++i) source.view()[i] = static_cast<char>(i * 13 + bytes);
    std::memset(target.view(), 0, kMost);
    pair.verbs.forget_posted();
    Request* receive = irecv(bytes);
    Request* send = isend(bytes);
    ASSERT_TRUE(receive != nullptr && send != nullptr);
    ASSERT_TRUE(both_complete(receive, send)) << bytes;
    EXPECT_EQ(std::memcmp(source.view(), target.view(), bytes), 0) << bytes;
    const auto posted = pair.posted_by(*pair.sender);
    EXPECT_LE(posted.size(), size_t{wire::kMaxChunks});
    EXPECT_EQ(posted.size(),
              bytes <= chunk ? 1u : std::min<size_t>(8, (bytes + chunk - 1) / chunk));
    for (size_t i = 0; i + 1 < posted.size(); ++i) {
      EXPECT_EQ(posted[i].bytes % wire::kSplitAlignment, 0u);
      EXPECT_GE(posted[i].bytes, chunk);
      EXPECT_EQ(posted[i + 1].remote_address, posted[i].remote_address + posted[i].bytes);
    }
  }
}

TEST_F(StagedTransfer, SourceNotCopiedYet_NothingIsPosted) {
  cuda.hooks.set_copies_held(1);
  Request* receive = irecv(1000);
  Request* send = isend(1000);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(test_once(send).done);
  EXPECT_TRUE(pair.posted_by(*pair.sender).empty());
  cuda.hooks.set_copies_held(0);
  EXPECT_TRUE(both_complete(receive, send));
}

TEST_F(StagedTransfer, TargetNotCopiedYet_ReceiveStaysOpen) {
  Buffer host_source = pair.sender_buffer(1000, 'x');
  Request* receive = irecv(1000);
  cuda.hooks.set_copies_held(1);
  Request* send = pair.isend(host_source);
  EXPECT_TRUE(completes(send));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(test_once(receive).done);
  cuda.hooks.set_copies_held(0);
  EXPECT_TRUE(completes(receive));
  EXPECT_EQ(std::string(target.view(), 1000), std::string(1000, 'x'));
}

TEST_F(StagedTransfer, MoreStagedSendsThanFit_WaitWithoutARequest) {
  cuda.hooks.set_copies_held(1);
  Buffer sink = pair.receiver_buffer(1);
  std::vector<Request*> receives;
  std::vector<Request*> sends;
  for (int i = 0; i < 5; ++i) {
    std::vector<ReceiveBuffer> group(8, sink.receive(1));
    receives.push_back(pair.irecv(group));
  }
  // Four groups are announced: 32 buffers.
  for (int i = 0; i < 32; ++i) {
    sends.push_back(isend(1));
    ASSERT_NE(sends.back(), nullptr) << i;
  }
  EXPECT_EQ(isend(1), nullptr);
  cuda.hooks.set_copies_held(0);
  for (Request* send : sends) EXPECT_TRUE(completes(send));
}

}  // namespace
}  // namespace gdr::transport
