// A plugin's table for tests that use few of its entries: they override those, and all others fail.
#pragma once

#include "tools/net/net.h"

namespace gdr::tools {

class FakeNet : public Net {
  using Code = abi::ncclResult_t;
  static constexpr Code kUnexpected = abi::ncclInternalError;

 public:
  int version() const override { return kNewestTable; }
  const char* name() const override { return "Fake"; }
  bool has(NetEntry) const override { return true; }
  Code init(const InitArguments&, void**) override { return kUnexpected; }
  Code finalize(void*) override { return kUnexpected; }
  Code devices(int*) override { return kUnexpected; }
  Code properties(int, NetProperties*) override { return kUnexpected; }
  Code listen(void*, int, void*, void**) override { return kUnexpected; }
  Code connect(void*, int, void*, void**) override { return kUnexpected; }
  Code accept(void*, void**) override { return kUnexpected; }
  Code reg_mr(void*, void*, size_t, int, void**) override { return kUnexpected; }
  Code reg_mr_dmabuf(void*, void*, size_t, int, uint64_t, int, void**) override {
    return kUnexpected;
  }
  Code dereg_mr(void*, void*) override { return kUnexpected; }
  Code isend(void*, void*, size_t, int, void*, void*, void**) override { return kUnexpected; }
  Code irecv(void*, int, void**, size_t*, int*, void**, void**, void**) override {
    return kUnexpected;
  }
  Code iflush(void*, int, void**, int*, void**, void**) override { return kUnexpected; }
  Code test(void*, int*, int*) override { return kUnexpected; }
  Code close_send(void*) override { return kUnexpected; }
  Code close_recv(void*) override { return kUnexpected; }
  Code close_listen(void*) override { return kUnexpected; }
  Code make_v_device(int*, const MergedDevices&) override { return kUnexpected; }
  Code set_net_attr(void*, const NetAttributes&) override { return kUnexpected; }
};

}  // namespace gdr::tools
