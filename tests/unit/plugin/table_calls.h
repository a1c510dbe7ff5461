// The calls of NCCL's network table with the arguments of the newest version, made on any version:
// an argument that the version does not have is left out. A test that is written with these runs on
// every table.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "plugin/abi/net_v12.h"
#include "plugin/abi/net_v6.h"

namespace gdr::plugin {

// TableOf<8>::Type is the type of version 8, ::Properties that of its properties.
template <int kVersion>
struct TableOf;
#define GDR_TABLE(version)                                    \
  template <>                                                 \
  struct TableOf<version> {                                   \
    static constexpr int kNumber = version;                   \
    using Type = abi::ncclNet_v##version##_t;                 \
    using Properties = abi::ncclNetProperties_v##version##_t; \
  }
GDR_TABLE(6);
GDR_TABLE(7);
GDR_TABLE(8);
GDR_TABLE(9);
GDR_TABLE(10);
GDR_TABLE(11);
GDR_TABLE(12);
#undef GDR_TABLE

// The types of a typed test.
using EveryTable = ::testing::Types<TableOf<6>, TableOf<7>, TableOf<8>, TableOf<9>, TableOf<10>,
                                    TableOf<11>, TableOf<12>>;

// Names the tests of a version "v8".
struct NameOfTable {
  template <class Version>
  static std::string GetName(int) {
    return "v" + std::to_string(Version::kNumber);
  }
};

// v7 and later have entries and properties for device offload.
template <class Table>
concept WithOffload = requires(const Table& table) {
  table.getDeviceMr;
};
// v9 and later have virtual devices, and sizes of data that are not int.
template <class Table>
concept WithVirtualDevices = requires(const Table& table) {
  table.makeVDevice;
};
// v11 and later have a context for each communicator.
template <class Table>
concept WithContexts = requires(const Table& table) {
  table.finalize;
};

// Of isend and irecv.
template <class Table>
using SizeOf = std::conditional_t<WithVirtualDevices<Table>, size_t, int>;

// *context: left alone where there are none.
template <class Table>
abi::ncclResult_t init(const Table& table, abi::ncclDebugLogger_t logger, void** context,
                       int traffic_class = abi::kTrafficClassUndefined, uint64_t id = 0x1234,
                       abi::ncclProfilerCallback_t profiler = nullptr) {
  if constexpr (WithContexts<Table>) {
    abi::ncclNetCommConfig_v11_t config{traffic_class};
    return table.init(context, id, &config, logger, profiler);
  } else if constexpr (requires { table.init(logger, nullptr); }) {
    return table.init(logger, profiler);
  } else {
    return table.init(logger);
  }
}

template <class Table>
abi::ncclResult_t finalize(const Table& table, void* context) {
  if constexpr (WithContexts<Table>) {
    return table.finalize(context);
  } else {
    return abi::ncclSuccess;
  }
}

template <class Table>
abi::ncclResult_t listen(const Table& table, void* context, int device, void* handle, void** comm) {
  if constexpr (WithContexts<Table>) {
    return table.listen(context, device, handle, comm);
  } else {
    return table.listen(device, handle, comm);
  }
}

// traffic_class: for v10, which has it here.
template <class Table>
abi::ncclResult_t connect(const Table& table, void* context, int device, void* handle, void** comm,
                          int traffic_class = abi::kTrafficClassUndefined) {
  abi::ncclNetDeviceHandle_v7_t* offload = nullptr;
  if constexpr (WithContexts<Table>) {
    return table.connect(context, device, handle, comm, &offload);
  } else if constexpr (requires { table.connect(device, nullptr, handle, comm, &offload); }) {
    abi::ncclNetCommConfig_v10_t config{traffic_class};
    return table.connect(device, &config, handle, comm, &offload);
  } else if constexpr (WithOffload<Table>) {
    return table.connect(device, handle, comm, &offload);
  } else {
    return table.connect(device, handle, comm);
  }
}

template <class Table>
abi::ncclResult_t accept(const Table& table, void* listener, void** comm) {
  if constexpr (WithOffload<Table>) {
    abi::ncclNetDeviceHandle_v7_t* offload = nullptr;
    return table.accept(listener, comm, &offload);
  } else {
    return table.accept(listener, comm);
  }
}

// `bytes` is cut to the size that the version can express.
template <class Table>
abi::ncclResult_t isend(const Table& table, void* comm, void* data, SizeOf<Table> bytes, int tag,
                        void* memory, void** request) {
  if constexpr (requires { table.isend(comm, data, bytes, tag, memory, nullptr, request); }) {
    return table.isend(comm, data, bytes, tag, memory, nullptr, request);
  } else {
    return table.isend(comm, data, bytes, tag, memory, request);
  }
}

template <class Table>
abi::ncclResult_t irecv(const Table& table, void* comm, int n, void** data, SizeOf<Table>* sizes,
                        int* tags, void** memory, void** request) {
  if constexpr (requires { table.irecv(comm, n, data, sizes, tags, memory, nullptr, request); }) {
    return table.irecv(comm, n, data, sizes, tags, memory, nullptr, request);
  } else {
    return table.irecv(comm, n, data, sizes, tags, memory, request);
  }
}

}  // namespace gdr::plugin
