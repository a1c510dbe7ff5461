#include "tools/net/table_net.h"

#include <cstring>
#include <utility>

#include "tools/net/table_types.h"

namespace gdr::tools {
namespace {

using abi::ncclResult_t;

// NCCL's NCCL_PROXY_MAX_SUBS: the most buffers that its shims convert for one irecv.
constexpr int kMostBuffers = 64;

// The context of v10, whose connect receives what init receives from v11 on.
using ConfigV10 = abi::ncclNetCommConfig_v10_t;

template <int kVersion>
class TableNet final : public Net {
  using Types = TableTypes<kVersion>;
  using Table = typename Types::Table;
  static constexpr const Contract& kContract = contract_of(kVersion);
  static constexpr bool kMessageSizesAreInts = kContract.largest_message <= INT_MAX;
  static constexpr bool kRegistrationSizesAreInts = kContract.largest_registration <= INT_MAX;

 public:
  explicit TableNet(const Table& table) : table_(table) {}

  int version() const override { return kVersion; }
  const char* name() const override { return table_.name; }
  bool has(NetEntry entry) const override;

  ncclResult_t init(const InitArguments& settings, void** context) override;
  ncclResult_t finalize(void* context) override;
  ncclResult_t devices(int* count) override { return table_.devices(count); }
  ncclResult_t properties(int dev, NetProperties* properties) override;

  ncclResult_t listen(void* context, int dev, void* handle, void** listen_comm) override;
  ncclResult_t connect(void* context, int dev, void* handle, void** send_comm) override;
  ncclResult_t accept(void* listen_comm, void** recv_comm) override;

  ncclResult_t reg_mr(void* comm, void* data, size_t bytes, int type, void** mhandle) override;
  ncclResult_t reg_mr_dmabuf(void* comm, void* data, size_t bytes, int type, uint64_t offset,
                             int fd, void** mhandle) override {
    return table_.regMrDmaBuf(comm, data, bytes, type, offset, fd, mhandle);
  }
  ncclResult_t dereg_mr(void* comm, void* mhandle) override {
    return table_.deregMr(comm, mhandle);
  }

  ncclResult_t isend(void* send_comm, void* data, size_t bytes, int tag, void* mhandle,
                     void* phandle, void** request) override;
  ncclResult_t irecv(void* recv_comm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                     void** phandles, void** request) override;
  ncclResult_t iflush(void* recv_comm, int n, void** data, int* sizes, void** mhandles,
                      void** request) override {
    return table_.iflush(recv_comm, n, data, sizes, mhandles, request);
  }
  ncclResult_t test(void* request, int* done, int* sizes) override {
    return table_.test(request, done, sizes);
  }

  ncclResult_t close_send(void* comm) override { return table_.closeSend(comm); }
  ncclResult_t close_recv(void* comm) override { return table_.closeRecv(comm); }
  ncclResult_t close_listen(void* comm) override { return table_.closeListen(comm); }

  ncclResult_t make_v_device(int* dev, const MergedDevices& merged) override;
  ncclResult_t set_net_attr(void* context, const NetAttributes& attributes) override;

 private:
  ncclResult_t receive_by_ints(void* recv_comm, int n, void** data, const size_t* sizes, int* tags,
                               void** mhandles, void** request);
  ncclResult_t refuse_size(const char* entry, size_t value, const char* unit, size_t most);

  const Table& table_;
  abi::ncclDebugLogger_t logger_ = nullptr;  // of the last init
};

template <int kVersion>
bool TableNet<kVersion>::has(NetEntry entry) const {
  const Table& t = table_;
  switch (entry) {
    case NetEntry::kInit:
      return t.init != nullptr;
    case NetEntry::kDevices:
      return t.devices != nullptr;
    case NetEntry::kGetProperties:
      return t.getProperties != nullptr;
    case NetEntry::kListen:
      return t.listen != nullptr;
    case NetEntry::kConnect:
      return t.connect != nullptr;
    case NetEntry::kAccept:
      return t.accept != nullptr;
    case NetEntry::kRegMr:
      return t.regMr != nullptr;
    case NetEntry::kRegMrDmaBuf:
      return t.regMrDmaBuf != nullptr;
    case NetEntry::kDeregMr:
      return t.deregMr != nullptr;
    case NetEntry::kIsend:
      return t.isend != nullptr;
    case NetEntry::kIrecv:
      return t.irecv != nullptr;
    case NetEntry::kIflush:
      return t.iflush != nullptr;
    case NetEntry::kTest:
      return t.test != nullptr;
    case NetEntry::kCloseSend:
      return t.closeSend != nullptr;
    case NetEntry::kCloseRecv:
      return t.closeRecv != nullptr;
    case NetEntry::kCloseListen:
      return t.closeListen != nullptr;
    case NetEntry::kGetDeviceMr:
      if constexpr (requires { t.getDeviceMr; }) return t.getDeviceMr != nullptr;
      return false;
    case NetEntry::kIrecvConsumed:
      if constexpr (requires { t.irecvConsumed; }) return t.irecvConsumed != nullptr;
      return false;
    case NetEntry::kMakeVDevice:
      if constexpr (requires { t.makeVDevice; }) return t.makeVDevice != nullptr;
      return false;
    case NetEntry::kFinalize:
      if constexpr (requires { t.finalize; }) return t.finalize != nullptr;
      return false;
    case NetEntry::kSetNetAttr:
      if constexpr (requires { t.setNetAttr; }) return t.setNetAttr != nullptr;
      return false;
  }
  return false;
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::init(const InitArguments& settings, void** context) {
  *context = nullptr;
  logger_ = settings.logger;
  ConfigV10 config{settings.traffic_class};
  if constexpr (kContract.contexts) {
    return table_.init(context, settings.id, &config, settings.logger, settings.profiler);
  } else if constexpr (kContract.traffic_class) {
    ncclResult_t result = table_.init(settings.logger, settings.profiler);
    if (result == abi::ncclSuccess) *context = new ConfigV10(config);
    return result;
  } else {
    return table_.init(settings.logger);
  }
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::finalize(void* context) {
  if constexpr (kContract.contexts) return table_.finalize(context);
  if constexpr (kContract.traffic_class) delete static_cast<ConfigV10*>(context);
  return abi::ncclSuccess;
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::properties(int dev, NetProperties* properties) {
  // NCCL does not initialise them either, so that a field which the plugin forgets shows.
  typename Types::Properties of_table;
  std::memset(static_cast<void*>(&of_table), 0xa5, sizeof(of_table));
  ncclResult_t result = table_.getProperties(dev, &of_table);
  if (result == abi::ncclSuccess) *properties = properties_from(dev, of_table);
  return result;
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::listen(void* context, int dev, void* handle, void** listen_comm) {
  if constexpr (kContract.contexts) {
    return table_.listen(context, dev, handle, listen_comm);
  } else {
    return table_.listen(dev, handle, listen_comm);
  }
}

// The last argument of connect and accept, from v7, is for device offload, which the tools do not
// use.
template <int kVersion>
ncclResult_t TableNet<kVersion>::connect(void* context, int dev, void* handle, void** send_comm) {
  [[maybe_unused]] abi::ncclNetDeviceHandle_v7_t* offload = nullptr;
  if constexpr (kContract.contexts) {
    return table_.connect(context, dev, handle, send_comm, &offload);
  } else if constexpr (kContract.traffic_class) {
    return table_.connect(dev, static_cast<ConfigV10*>(context), handle, send_comm, &offload);
  } else if constexpr (kVersion >= 7) {
    return table_.connect(dev, handle, send_comm, &offload);
  } else {
    return table_.connect(dev, handle, send_comm);
  }
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::accept(void* listen_comm, void** recv_comm) {
  if constexpr (kVersion >= 7) {
    abi::ncclNetDeviceHandle_v7_t* offload = nullptr;
    return table_.accept(listen_comm, recv_comm, &offload);
  } else {
    return table_.accept(listen_comm, recv_comm);
  }
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::reg_mr(void* comm, void* data, size_t bytes, int type,
                                        void** mhandle) {
  if constexpr (kRegistrationSizesAreInts) {
    if (bytes > kContract.largest_registration) {
      return refuse_size("regMr", bytes, "bytes", kContract.largest_registration);
    }
    return table_.regMr(comm, data, static_cast<int>(bytes), type, mhandle);
  } else {
    return table_.regMr(comm, data, bytes, type, mhandle);
  }
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::isend(void* send_comm, void* data, size_t bytes, int tag,
                                       void* mhandle, [[maybe_unused]] void* phandle,
                                       void** request) {
  if constexpr (kContract.profiler) {
    return table_.isend(send_comm, data, bytes, tag, mhandle, phandle, request);
  } else if constexpr (!kMessageSizesAreInts) {
    return table_.isend(send_comm, data, bytes, tag, mhandle, request);
  } else {
    if (bytes > kContract.largest_message) {
      return refuse_size("isend", bytes, "bytes", kContract.largest_message);
    }
    return table_.isend(send_comm, data, static_cast<int>(bytes), tag, mhandle, request);
  }
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::irecv(void* recv_comm, int n, void** data, size_t* sizes,
                                       int* tags, void** mhandles, [[maybe_unused]] void** phandles,
                                       void** request) {
  if constexpr (!kContract.optional_receive_completion) {
    if (*request == kOptionalCompletion) *request = nullptr;
  }
  if constexpr (kContract.profiler) {
    return table_.irecv(recv_comm, n, data, sizes, tags, mhandles, phandles, request);
  } else if constexpr (!kMessageSizesAreInts) {
    return table_.irecv(recv_comm, n, data, sizes, tags, mhandles, request);
  } else {
    return receive_by_ints(recv_comm, n, data, sizes, tags, mhandles, request);
  }
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::receive_by_ints(void* recv_comm, int n, void** data,
                                                 const size_t* sizes, int* tags, void** mhandles,
                                                 void** request) {
  if (n > kMostBuffers) {
    return refuse_size("irecv", static_cast<size_t>(n), "buffers", kMostBuffers);
  }
  int ints[kMostBuffers];
  for (int i = 0; i < n; ++i) {
    if (sizes[i] > kContract.largest_message) {
      return refuse_size("irecv", sizes[i], "bytes", kContract.largest_message);
    }
    ints[i] = static_cast<int>(sizes[i]);
  }
  return table_.irecv(recv_comm, n, data, ints, tags, mhandles, request);
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::make_v_device([[maybe_unused]] int* dev,
                                               [[maybe_unused]] const MergedDevices& merged) {
  if constexpr (kContract.max_merged_devices > 0) {
    if (!has(NetEntry::kMakeVDevice)) return abi::ncclInternalError;
    if (merged.count > kContract.max_merged_devices) {
      return refuse_size("makeVDevice", static_cast<size_t>(merged.count), "devices",
                         static_cast<size_t>(kContract.max_merged_devices));
    }
    typename Types::Merged of_table{};
    of_table.ndevs = merged.count;
    std::copy_n(merged.devices.begin(), std::size(of_table.devs), of_table.devs);
    return table_.makeVDevice(dev, &of_table);
  } else {
    return abi::ncclInternalError;
  }
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::set_net_attr([[maybe_unused]] void* context,
                                              [[maybe_unused]] const NetAttributes& attributes) {
  if constexpr (kContract.contexts) {
    if (!has(NetEntry::kSetNetAttr)) return abi::ncclInternalError;
    abi::ncclNetAttr_v11_t of_table = to_table(attributes);
    return table_.setNetAttr(context, &of_table);
  } else {
    return abi::ncclInternalError;
  }
}

template <int kVersion>
ncclResult_t TableNet<kVersion>::refuse_size(const char* entry, size_t value, const char* unit,
                                             size_t most) {
  if (logger_ != nullptr) {
    logger_(abi::kLogWarn, 0, __FILE__, __LINE__,
            "%s of %zu %s: version %d of the network table carries at most %zu", entry, value, unit,
            kVersion, most);
  }
  return abi::ncclInternalError;
}

template <int kVersion>
std::unique_ptr<Net> make_one(const void* table) {
  using Table = typename TableTypes<kVersion>::Table;
  return std::make_unique<TableNet<kVersion>>(*static_cast<const Table*>(table));
}

template <size_t... kIndex>
std::unique_ptr<Net> make_indexed(size_t index, const void* table, std::index_sequence<kIndex...>) {
  constexpr std::unique_ptr<Net> (*kMakers[])(const void*) = {
      &make_one<kContracts[kIndex].version>...};
  return kMakers[index](table);
}

}  // namespace

std::unique_ptr<Net> make_net(int version, const void* table) {
  return make_indexed(static_cast<size_t>(version - kOldestTable), table,
                      std::make_index_sequence<kContracts.size()>());
}

}  // namespace gdr::tools
