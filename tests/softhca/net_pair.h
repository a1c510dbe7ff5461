// A connection whose two ends are in this process, made with any version of a plugin's table.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/plugin/table_calls.h"

namespace gdr {

// Calls `ready` until it returns true. The limit is there for a test that fails, not a measurement.
inline bool wait_until(const std::function<bool()>& ready) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > limit) return false;
  }
  return true;
}

template <class Table>
class NetPair {
 public:
  // Contexts as init returned them. Connects `device` to `device`.
  NetPair(const Table& table, void* context, int device = 0)
      : table_(table), context_(context), device_(device) {}
  NetPair(const NetPair&) = delete;
  NetPair& operator=(const NetPair&) = delete;
  ~NetPair() { close(); }

  // Listens, connects, accepts, registers memory and closes the listener, as NCCL does.
  void connect() {
    char handle[abi::kHandleMaxBytes] = {};
    void* listener = nullptr;
    ASSERT_EQ(plugin::listen(table_, context_, device_, handle, &listener), abi::ncclSuccess);
    const bool connected = wait_until([&] {
      abi::ncclResult_t result = abi::ncclSuccess;
      if (sender_ == nullptr) result = plugin::connect(table_, context_, device_, handle, &sender_);
      EXPECT_EQ(result, abi::ncclSuccess);
      if (result == abi::ncclSuccess && receiver_ == nullptr) {
        result = plugin::accept(table_, listener, &receiver_);
        EXPECT_EQ(result, abi::ncclSuccess);
      }
      return result != abi::ncclSuccess || (sender_ != nullptr && receiver_ != nullptr);
    });
    EXPECT_EQ(table_.closeListen(listener), abi::ncclSuccess);
    ASSERT_TRUE(connected && sender_ != nullptr && receiver_ != nullptr);
    ASSERT_EQ(table_.regMr(sender_, from_.data(), kBytes, abi::kPtrHost, &from_memory_),
              abi::ncclSuccess);
    ASSERT_EQ(table_.regMr(receiver_, to_.data(), kBytes, abi::kPtrHost, &to_memory_),
              abi::ncclSuccess);
  }

  // Sends one message, whose bytes depend on `seed`, and compares what arrives.
  void exchange(int seed) {
    for (size_t i = 0; i < kBytes; ++i) from_[i] = static_cast<char>(seed + static_cast<int>(i));
    std::fill(to_.begin(), to_.end(), '\0');
    void *receive = nullptr, *send = nullptr;
    void* data = to_.data();
    plugin::SizeOf<Table> bytes = kBytes;
    int tag = 0;
    ASSERT_TRUE(wait_until([&] {
      const auto result =
          plugin::irecv(table_, receiver_, 1, &data, &bytes, &tag, &to_memory_, &receive);
      EXPECT_EQ(result, abi::ncclSuccess);
      return receive != nullptr || result != abi::ncclSuccess;
    }));
    ASSERT_TRUE(wait_until([&] {
      const auto result =
          plugin::isend(table_, sender_, from_.data(), kSent, 0, from_memory_, &send);
      EXPECT_EQ(result, abi::ncclSuccess);
      return send != nullptr || result != abi::ncclSuccess;
    }));
    ASSERT_NO_FATAL_FAILURE(finish(receive));
    ASSERT_NO_FATAL_FAILURE(finish(send));
    std::fill(from_.begin() + kSent, from_.end(), '\0');
    ASSERT_EQ(from_, to_);
  }

  void deregister() {
    EXPECT_EQ(table_.deregMr(sender_, std::exchange(from_memory_, nullptr)), abi::ncclSuccess);
    EXPECT_EQ(table_.deregMr(receiver_, std::exchange(to_memory_, nullptr)), abi::ncclSuccess);
  }
  void close() {
    if (sender_ == nullptr || receiver_ == nullptr) return;
    deregister();
    EXPECT_EQ(table_.closeSend(std::exchange(sender_, nullptr)), abi::ncclSuccess);
    EXPECT_EQ(table_.closeRecv(std::exchange(receiver_, nullptr)), abi::ncclSuccess);
  }

  void* sender() const { return sender_; }

  static constexpr size_t kBytes = 5000;  // of the buffers
  static constexpr size_t kSent = 4900;   // of a message

 private:
  void finish(void* request) {
    ASSERT_NE(request, nullptr);
    int done = 0, arrived = 0;
    ASSERT_TRUE(wait_until([&] {
      const auto result = table_.test(request, &done, &arrived);
      EXPECT_EQ(result, abi::ncclSuccess);
      return done != 0 || result != abi::ncclSuccess;
    }));
    ASSERT_EQ(done, 1);
    ASSERT_EQ(arrived, static_cast<int>(kSent));
  }

  const Table& table_;
  void* context_;
  int device_;
  void* sender_ = nullptr;
  void* receiver_ = nullptr;
  std::vector<char> from_ = std::vector<char>(kBytes);
  std::vector<char> to_ = std::vector<char>(kBytes);
  void* from_memory_ = nullptr;
  void* to_memory_ = nullptr;
};

}  // namespace gdr
