#include "transport/device/moved_counters.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"
#include "base/log.h"

namespace gdr::transport {

// What is known of one port.
struct WatchedPort {
  std::string ibdev_path;
  int number = 1;
  HardwareCounters last;   // as read last
  HardwareCounters moved;  // since `since`
  Clock::time_point since{};
  int reads = 0;                              // that are asked for and not made yet
  int callers = 0;                            // of read_now(), to whom take_found() leaves it
  std::optional<Clock::time_point> asked_at;  // read_now()
  std::optional<Clock::time_point> taken_at;  // take_found()
};

namespace {

constexpr std::chrono::seconds kBetweenTexts{60};  // of take_found(), for one port
constexpr std::chrono::seconds kBetweenReads{1};   // of read_now()

// Returns the text about what has moved, which begins anew.
std::string take_text(const std::string& name, WatchedPort& port, Clock::time_point now) {
  const auto time = std::chrono::duration_cast<std::chrono::seconds>(now - port.since);
  port.since = now;
  return "hardware counters of " + name + " that moved in the last " +
         std::to_string(time.count()) + " s: " + to_string(std::exchange(port.moved, {}));
}

// Takes what a read has shown. A counter that vanishes keeps its last value.
void take_counters(HardwareCounters counters, WatchedPort& port) {
  for (const auto& [name, by] : moved_symptoms(port.last, counters)) port.moved[name] += by;
  counters.merge(port.last);
  port.last = std::move(counters);
}

}  // namespace

struct MovedCounters::State {
  Reader reader;
  Now now;
  std::mutex mutex;                 // guards all that follows
  std::condition_variable changed;  // waiting or stopping
  std::condition_variable read;     // the thread has made a read, or ended
  std::map<std::string, WatchedPort> ports;
  std::deque<std::string> waiting;  // ports to read
  bool started = false;
  bool stopping = false;
  bool ended = false;

  bool is_idle() const {
    return std::ranges::all_of(ports, [](const auto& port) { return port.second.reads == 0; });
  }
  // A read that waits behind another one shows as much as a third would.
  void ask(const std::string& name, WatchedPort& port) {
    if (port.reads == 2) return;
    ++port.reads;
    waiting.push_back(name);
    changed.notify_all();
  }
};

MovedCounters::MovedCounters(Reader reader, Now now) : state_(std::make_shared<State>()) {
  state_->reader = std::move(reader);
  state_->now = std::move(now);
}

MovedCounters::~MovedCounters() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  state_->read.wait_for(lock, kPatience, [this] { return !state_->started || state_->ended; });
}

// The thread is detached, as it may be inside the kernel when this object ends. It inherits a mask
// without the application's signals.
void MovedCounters::watch(const Device& device) {
  std::lock_guard lock(state_->mutex);
  const std::string name = to_string(device);
  const std::string& path = device.hca->sysfs_path();
  if (state_->ports.contains(name) || !has_hardware_counters(path, device.port)) return;
  if (!state_->started) {
    const BlockedSignals blocked;
    try {
      std::thread thread([state = state_] { run(state); });
      pthread_setname_np(thread.native_handle(), "gdr-counters");
      thread.detach();
      state_->started = true;
    } catch (const std::system_error&) {
      return;  // tried again with the next connection
    }
  }
  WatchedPort& port = state_->ports[name];
  port.ibdev_path = path;
  port.number = device.port;
  port.since = state_->now();
  state_->ask(name, port);
}

void MovedCounters::read_soon(const std::string& name) {
  std::lock_guard lock(state_->mutex);
  const auto port = state_->ports.find(name);
  if (port != state_->ports.end()) state_->ask(name, port->second);
}

std::vector<std::string> MovedCounters::take_found(std::chrono::milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  state_->read.wait_for(lock, patience, [this] { return state_->is_idle(); });
  const Clock::time_point now = state_->now();
  std::vector<std::string> texts;
  for (auto& [name, port] : state_->ports) {
    const bool soon = port.taken_at && now - *port.taken_at < kBetweenTexts;
    if (port.moved.empty() || port.reads > 0 || port.callers > 0 || soon) continue;
    port.taken_at = now;
    texts.push_back(take_text(name, port, now));
  }
  return texts;
}

void MovedCounters::log_found(std::chrono::milliseconds patience) {
  for (const std::string& text : take_found(patience)) {
    GDR_INFO(log::kInit | log::kNet, "%s", text.c_str());
  }
}

std::vector<std::string> MovedCounters::read_now(const std::vector<std::string>& names) {
  std::unique_lock lock(state_->mutex);
  const Clock::time_point now = state_->now();
  std::map<std::string, WatchedPort*> asked;
  for (const std::string& name : names) {
    const auto port = state_->ports.find(name);
    if (port == state_->ports.end()) continue;
    const auto& before = port->second.asked_at;
    if (before && now - *before < kBetweenReads) continue;
    port->second.asked_at = now;
    ++port->second.callers;
    asked[name] = &port->second;  // stays: no port is ever removed
    state_->ask(name, port->second);
  }
  state_->read.wait_for(lock, kPatience, [&asked] {
    for (const auto& [name, port] : asked) {
      if (port->reads > 0) return false;
    }
    return true;
  });
  std::vector<std::string> texts;
  for (const auto& [name, port] : asked) {
    --port->callers;
    if (!port->moved.empty()) texts.push_back(take_text(name, *port, now));
  }
  return texts;
}

bool MovedCounters::is_idle() const {
  std::lock_guard lock(state_->mutex);
  return state_->is_idle();
}

void MovedCounters::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->stopping || !state->waiting.empty(); });
    if (state->stopping) break;
    const std::string name = std::move(state->waiting.front());
    state->waiting.pop_front();
    WatchedPort& port = state->ports[name];
    lock.unlock();
    HardwareCounters counters;
    try {
      counters = state->reader(port.ibdev_path, port.number);
    } catch (const std::exception&) {
      // As if nothing could be read. An exception would end the process.
    }
    lock.lock();
    take_counters(std::move(counters), port);
    --port.reads;
    state->read.notify_all();
  }
  state->ended = true;
  state->read.notify_all();
}

}  // namespace gdr::transport
