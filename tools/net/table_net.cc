// The converters: a Net over a plugin's table of each version.
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

static_assert(std::size(kNetEntries) + 1 == sizeof(TableOf<kNewestTable>) / sizeof(void*));

template <int kVersion>
class TableNet final : public Net {
  using Table = TableOf<kVersion>;
  static constexpr Contract kContract = contract_of(kVersion);
  static constexpr bool kMessageSizesAreInts = kContract.largest_message <= INT_MAX;
  static constexpr bool kRegistrationSizesAreInts = kContract.largest_registration <= INT_MAX;

 public:
  explicit TableNet(const Table& table) : table_(table) {}

  int version() const override { return kVersion; }
  const char* name() const override { return table_.name; }
  // Every version is a name and pointers to functions, so that a slot can be read by its number.
  bool has(NetEntry entry) const override {
    static_assert(sizeof(Table) % sizeof(void*) == 0);
    const size_t slot = 1 + static_cast<size_t>(entry);
    if (slot >= sizeof(Table) / sizeof(void*)) return false;
    const void* function = nullptr;
    std::memcpy(&function, reinterpret_cast<const char*>(&table_) + slot * sizeof(function),
                sizeof(function));
    return function != nullptr;
  }

  ncclResult_t init(const InitArguments& settings, void** context) override {
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

  ncclResult_t finalize(void* context) override {
    if constexpr (kContract.contexts) return table_.finalize(context);
    if constexpr (kContract.traffic_class) delete static_cast<ConfigV10*>(context);
    return abi::ncclSuccess;
  }

  ncclResult_t devices(int* count) override { return table_.devices(count); }
  ncclResult_t properties(int dev, NetProperties* properties) override {
    // NCCL does not initialise them either, so that a field which the plugin forgets shows.
    decltype(pointed_to(table_.getProperties)) of_table;
    std::memset(static_cast<void*>(&of_table), 0xa5, sizeof(of_table));
    ncclResult_t result = table_.getProperties(dev, &of_table);
    if (result == abi::ncclSuccess) *properties = properties_from(dev, of_table);
    return result;
  }

  ncclResult_t listen(void* context, int dev, void* handle, void** listen_comm) override {
    if constexpr (kContract.contexts) {
      return table_.listen(context, dev, handle, listen_comm);
    } else {
      return table_.listen(dev, handle, listen_comm);
    }
  }

  // The last argument of connect and accept, from v7, is for device offload, which the tools do not
  // use.
  ncclResult_t connect(void* context, int dev, void* handle, void** send_comm) override {
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

  ncclResult_t accept(void* listen_comm, void** recv_comm) override {
    if constexpr (kVersion >= 7) {
      abi::ncclNetDeviceHandle_v7_t* offload = nullptr;
      return table_.accept(listen_comm, recv_comm, &offload);
    } else {
      return table_.accept(listen_comm, recv_comm);
    }
  }

  ncclResult_t reg_mr(void* comm, void* data, size_t bytes, int type, void** mhandle) override {
    if constexpr (kRegistrationSizesAreInts) {
      if (bytes > kContract.largest_registration) {
        return refuse_size("regMr", bytes, "bytes", kContract.largest_registration);
      }
      return table_.regMr(comm, data, static_cast<int>(bytes), type, mhandle);
    } else {
      return table_.regMr(comm, data, bytes, type, mhandle);
    }
  }

  ncclResult_t reg_mr_dmabuf(void* comm, void* data, size_t bytes, int type, uint64_t offset,
                             int fd, void** mhandle) override {
    return table_.regMrDmaBuf(comm, data, bytes, type, offset, fd, mhandle);
  }
  ncclResult_t dereg_mr(void* comm, void* mhandle) override {
    return table_.deregMr(comm, mhandle);
  }

  ncclResult_t isend(void* send_comm, void* data, size_t bytes, int tag, void* mhandle,
                     [[maybe_unused]] void* phandle, void** request) override {
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

  ncclResult_t irecv(void* recv_comm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                     [[maybe_unused]] void** phandles, void** request) override {
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

  ncclResult_t make_v_device([[maybe_unused]] int* dev,
                             [[maybe_unused]] const MergedDevices& merged) override {
    if constexpr (kContract.max_merged_devices > 0) {
      if (!has(NetEntry::kMakeVDevice)) return abi::ncclInternalError;
      if (merged.count > kContract.max_merged_devices) {
        return refuse_size("makeVDevice", static_cast<size_t>(merged.count), "devices",
                           static_cast<size_t>(kContract.max_merged_devices));
      }
      decltype(pointed_to(table_.makeVDevice)) of_table{};
      of_table.ndevs = merged.count;
      std::copy_n(merged.devices.begin(), std::size(of_table.devs), of_table.devs);
      return table_.makeVDevice(dev, &of_table);
    } else {
      return abi::ncclInternalError;
    }
  }

  ncclResult_t set_net_attr([[maybe_unused]] void* context,
                            [[maybe_unused]] const NetAttributes& attributes) override {
    if constexpr (kContract.contexts) {
      if (!has(NetEntry::kSetNetAttr)) return abi::ncclInternalError;
      abi::ncclNetAttr_v11_t of_table = to_table(attributes);
      return table_.setNetAttr(context, &of_table);
    } else {
      return abi::ncclInternalError;
    }
  }

 private:
  ncclResult_t receive_by_ints(void* recv_comm, int n, void** data, const size_t* sizes, int* tags,
                               void** mhandles, void** request) {
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

  ncclResult_t refuse_size(const char* entry, size_t value, const char* unit, size_t most) {
    if (logger_ != nullptr) {
      logger_(abi::kLogWarn, 0, __FILE__, __LINE__,
              "%s of %zu %s: version %d of the network table carries at most %zu", entry, value,
              unit, kVersion, most);
    }
    return abi::ncclInternalError;
  }

  const Table& table_;
  abi::ncclDebugLogger_t logger_ = nullptr;  // of the last init
};

template <int kVersion>
std::unique_ptr<Net> make_one(const void* table) {
  return std::make_unique<TableNet<kVersion>>(*static_cast<const TableOf<kVersion>*>(table));
}

template <int... kOffset>
std::unique_ptr<Net> make_for(int version, const void* table,
                              std::integer_sequence<int, kOffset...>) {
  constexpr std::unique_ptr<Net> (*kMakers[])(const void*) = {&make_one<kOldestTable + kOffset>...};
  return kMakers[version - kOldestTable](table);
}

}  // namespace

std::unique_ptr<Net> make_net(int version, const void* table) {
  constexpr int kVersions = kNewestTable - kOldestTable + 1;
  return make_for(version, table, std::make_integer_sequence<int, kVersions>());
}

}  // namespace gdr::tools
