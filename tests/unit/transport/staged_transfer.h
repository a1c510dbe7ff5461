// A connected pair whose GPU buffers are staged at both ends, over the fakes of verbs and CUDA. The
// fake driver copies in threads of its own, and not at all while a test holds its copies.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/cuda/fake_driver.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {

struct StagedTransfer : testing::Test {
  static constexpr size_t kMost = 5 << 20;

  explicit StagedTransfer(const TransportOptions& with = test_options()) : pair(with) {}

  CommPair pair;
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  const bool initialised = cuda::CudaDriver::shared().has_value();
  fake_cuda::DeviceBuffer source{cuda, 0, kMost};
  fake_cuda::DeviceBuffer target{cuda, 1, kMost};
  Registrar staging{[] {
    MemoryOptions only;
    only.gpu_memory = RegistrationPaths::parse("staging").value();
    return shared(only);
  }()};
  std::unique_ptr<MemoryHandle> from = stage(*pair.sender, source);
  std::unique_ptr<MemoryHandle> to = stage(*pair.receiver, target);

  // Registrations wait for their copies when they are destroyed.
  void TearDown() override { hold_copies(false); }
  void hold_copies(bool held) const { cuda.hooks.set_copies_held(held ? 1 : 0); }

  template <class Comm>
  std::unique_ptr<MemoryHandle> stage(Comm& comm, const fake_cuda::DeviceBuffer& buffer) {
    MemoryRegion region{reinterpret_cast<uintptr_t>(buffer.get()), kMost, true};
    return staging.register_memory(comm.connection().registration_scope(), region).value();
  }
  Request* irecv(size_t bytes) { return pair.irecv({{target.get(), bytes, 0, to.get()}}); }
  Request* isend(size_t bytes, size_t offset = 0) { return isend(bytes, *from, offset); }
  Request* isend(size_t bytes, const MemoryHandle& memory, size_t offset = 0) {
    Request* request = nullptr;
    EXPECT_TRUE(pair.sender->isend(source.get() + offset, bytes, 0, memory, &request));
    return request;
  }
  static bool completes(Request* request) {
    return wait_for([&] {
      Outcome outcome = test_once(request);
      return outcome.done || !outcome.alive;
    });
  }
  static bool both_complete(Request* receive, Request* send) {
    bool received = false;
    bool sent = false;
    return wait_for([&] {
      received = received || test_once(receive).done;
      sent = sent || test_once(send).done;
      return received && sent;
    });
  }
  // What the watchdog would log of this end.
  template <class Comm>
  static std::string state_of(Comm& comm) {
    return comm.connection().link().state_text();
  }
};

}  // namespace gdr::transport
