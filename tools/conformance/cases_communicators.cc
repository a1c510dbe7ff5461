// C6x: several communicators in one process, and what NCCL passes for each of them.
#include <atomic>
#include <mutex>
#include <thread>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
// The settings of the communicator with this number.
InitArguments numbered(Session& s, uint64_t number) {
  InitArguments settings = s.settings();
  settings.id += number;
  return settings;
}

// A context may be null: NCCL's own Socket transport leaves it so (src/transport/net_socket.cc).
void contexts_differ(Session& s) {
  s.open();
  s.need(s.contract().contexts, "contexts");
  std::vector<void*> contexts{s.context()};
  for (uint64_t i = 1; i <= 4; ++i) {
    void* made = s.init(numbered(s, i));
    for (void* other : contexts) {
      s.require(made == nullptr || made != other, "two calls of init returned the same context");
    }
    contexts.push_back(made);
  }
  for (void* context : contexts) {
    auto connections = open_connections(s, context, {{0, 0}});
    exchange_all(s, connections, {single(100), single(50000)});
  }
  for (size_t i = 1; i < contexts.size(); ++i) s.finalize(contexts[i]);
}

// A job may keep one communicator for the data and make others for a while.
void ends_alone(Session& s) {
  s.open();
  s.need(s.contract().contexts, "contexts");
  auto first = open_connections(s, {{0, 1}, {1, 0}});
  for (uint64_t round = 1; round <= 3; ++round) {
    void* context = s.init(numbered(s, round));
    {
      auto second = open_connections(s, context, {{0, 1}, {1, 0}});
      exchange_all(s, second, {single(3000), single(200000)});
      exchange_all(s, first, {single(3000), single(200000)});
      s.meet("both communicators have moved data");
    }
    s.finalize(context);
    s.meet("one communicator has ended");
    exchange_all(s, first, {single(100000)});
    exchange(s, open_connection(s, 0, 1), {single(1000)});
    s.meet("the other one still works");
  }
}

// NCCL unloads a plugin after its last communicator, or keeps it and calls init again.
void starts_again(Session& s) {
  s.load();
  s.need(s.contract().contexts, "contexts");
  int devices = -1;
  for (uint64_t round = 0; round < 4; ++round) {
    void* context = s.init(numbered(s, round));
    const int count = s.devices();
    s.require(devices < 0 || count == devices, "devices() was {} and is {} after finalize and init",
              devices, count);
    devices = count;
    {
      auto connections = open_connections(s, context, {{0, 0}});
      exchange_all(s, connections, {single(100), single(50000)});
    }
    s.finalize(context);
  }
}

// Each communicator of a process has proxy threads of its own (src/proxy.cc), while NCCL calls init
// and finalize under a lock (src/plugin/net.cc).
void from_several_threads(Session& s) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 8;
  s.open();
  std::mutex init_lock;
  std::atomic<bool> failed{false};
  std::vector<std::string> errors(kThreads);
  auto communicator = [&](size_t thread) {
    for (int round = 0; round < kRounds && !failed; ++round) {
      uint64_t number = thread * kRounds + static_cast<uint64_t>(round) + 1;
      void* context = s.context();
      if (s.contract().contexts) {
        std::lock_guard lock(init_lock);
        if (s.net().init(numbered(s, number), &context) != abi::ncclSuccess)
          errors[thread] = "init";
      }
      if (errors[thread].empty()) {
        errors[thread] =
            lone_message(s.net(), context, s.dev(), number, s.options().timeout_seconds);
      }
      if (errors[thread].empty() && s.contract().contexts) {
        std::lock_guard lock(init_lock);
        if (s.net().finalize(context) != abi::ncclSuccess) errors[thread] = "finalize";
      }
      if (!errors[thread].empty()) failed = true;
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back(communicator, i);
  for (std::thread& one : threads) one.join();
  for (const std::string& error : errors) {
    s.require(error.empty(), "with {} communicators in as many threads: {}", kThreads, error);
  }
}

// ncclConfig_t.trafficClass; NCCL passes any value of the user on (src/plugin/net.cc). The memory
// of the settings is only valid during the call.
void traffic_classes(Session& s) {
  s.open();
  s.need(s.contract().traffic_class, "traffic class");
  for (int traffic_class : {abi::kTrafficClassUndefined, 0, 32, 106, 255}) {
    InitArguments settings = numbered(s, 1);
    settings.traffic_class = traffic_class;
    void* context = s.init(settings);
    {
      auto connections = open_connections(s, context, {{0, 1}, {1, 0}});
      exchange_all(s, connections, {single(10), single(100000)});
      s.meet("data has arrived");
    }
    s.finalize(context);
  }
}

NetAttributes attributes(int32_t peers, int32_t flows, uint32_t mask) {
  PeerHints hints{peers, 1, flows, 1};
  return NetAttributes{hints, hints, mask, mask, mask};
}

// NCCL sets the attributes in connect and whenever the kind of transfer changes, on its proxy's
// progress thread (src/transport/net.cc).
void attributes_at_any_time(Session& s) {
  s.open();
  s.need(s.contract().contexts, "setNetAttr");
  if (!s.net().has(NetEntry::kSetNetAttr)) s.skip("setNetAttr is null: NCCL does not call it");
  auto set = [&](const NetAttributes& attr) {
    s.must("setNetAttr", [&] { return s.net().set_net_attr(s.context(), attr); });
  };
  set(NetAttributes{});
  auto connections = open_connections(s, {{0, 1}, {1, 0}});
  std::atomic<bool> stop{false};
  std::atomic<int> refused{0};
  std::thread setter([&] {
    for (int32_t i = 0; !stop; ++i) {
      NetAttributes attr =
          i % 3 == 0 ? NetAttributes{} : attributes(i % 65, i % 33, 1u << (i % 32));
      if (s.net().set_net_attr(s.context(), attr) != abi::ncclSuccess) ++refused;
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 10; ++round) {
    exchange_all(s, connections, {single(100), single(s.random().below(200000)), single(0)});
  }
  stop = true;
  setter.join();
  s.require(refused == 0, "{} calls of setNetAttr during the traffic failed", refused.load());
  set(attributes(8, 2, 1));
  exchange_all(s, connections, {single(1000)});
  s.meet("all data has arrived");
}

}  // namespace

ConformanceCases communicator_cases() {
  return {
      {"C60-contexts", "each init (v11) makes a context of its own, and each can connect", 1,
       &contexts_differ},
      {"C61-end-one-communicator",
       "two communicators (v11) move data at once, and finalize of one leaves the other working", 2,
       &ends_alone},
      {"C62-start-again",
       "after finalize (v11) of the last communicator, init makes the same devices work again", 1,
       &starts_again},
      {"C63-communicators-in-threads",
       "communicators in several threads connect, move data and close at the same time", 1,
       &from_several_threads},
      {"C64-traffic-class",
       "connections work with the undefined traffic class and with 0 to 255 (v10: of connect; v11: "
       "of init)",
       2, &traffic_classes},
      {"C65-net-attributes",
       "setNetAttr (v11) is null, or accepts undefined and other values before, during and after "
       "traffic",
       2, &attributes_at_any_time},
  };
}

}  // namespace gdr::tools
