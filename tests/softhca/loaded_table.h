// A table of the built library, as NCCL loads it. PLUGIN is the library's path.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/fakes/plugin_log.h"
#include "tests/unit/plugin/table_calls.h"

namespace gdr {

// The library is open as long as this lives, as between two communicators of an NCCL that unloads
// plugins.
template <int kVersion>
class LoadedTable {
 public:
  using Table = typename plugin::TableOf<kVersion>::Type;

  explicit LoadedTable(const char* file = PLUGIN) : library_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << dlerror();
    const std::string symbol = "ncclNetPlugin_v" + std::to_string(kVersion);
    table_ = static_cast<const Table*>(dlsym(library_, symbol.c_str()));
    EXPECT_NE(table_, nullptr) << symbol;
  }
  ~LoadedTable() {
    if (library_ != nullptr) dlclose(library_);
  }
  LoadedTable(const LoadedTable&) = delete;
  LoadedTable& operator=(const LoadedTable&) = delete;

  const Table& operator*() const { return *table_; }
  const Table* operator->() const { return table_; }

 private:
  void* library_;
  const Table* table_;
};

// A communicator of NCCL's: init and finalize.
template <class Table>
class NetCommunicator {
 public:
  explicit NetCommunicator(const Table& table, int traffic_class = abi::kTrafficClassUndefined,
                           uint64_t id = 0x1234)
      : table_(table) {
    EXPECT_EQ(plugin::init(table, PluginLog::logger(), &context_, traffic_class, id),
              abi::ncclSuccess)
        << PluginLog::text();
  }
  ~NetCommunicator() { EXPECT_EQ(plugin::finalize(table_, context_), abi::ncclSuccess); }
  NetCommunicator(const NetCommunicator&) = delete;
  NetCommunicator& operator=(const NetCommunicator&) = delete;

  void* context() const { return context_; }

 private:
  const Table& table_;
  void* context_ = nullptr;
};

}  // namespace gdr
