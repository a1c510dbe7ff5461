#include "tools/conformance/session.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tools/common/nccl_logger.h"
#include "tools/common/output.h"
#include "tools/net/plugin_loader.h"

namespace gdr::tools {

void Session::load() {
  auto plugin = Plugin::load(options_.plugin, options_.table);
  if (!plugin) fail(plugin.error().text);
  plugin_.emplace(std::move(*plugin));
  // The library stays loaded until the process ends, so that only C08 fails where a thread of the
  // plugin outlives its library.
  (void)dlopen(plugin_->file().c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

Session::~Session() {
  if (initialized_) finalize(context_);
}

InitArguments Session::settings() const {
  InitArguments made;
  made.logger = &nccl_logger;
  // Records nothing, as NCCL's where no profiler is loaded.
  made.profiler = [](void**, int, void*, int64_t, void*) { return abi::ncclSuccess; };
  made.id = options_.seed;
  return made;
}

void* Session::init(const InitArguments& settings) {
  void* context = nullptr;
  abi::ncclResult_t result = call("init", [&] { return net().init(settings, &context); });
  require(result == abi::ncclSuccess, "init returned {}; NCCL_DEBUG=WARN shows why",
          describe(result));
  return context;
}

void Session::finalize(void* context) {
  must("finalize", [&] { return net().finalize(context); });
}

void Session::open(const InitArguments& settings) {
  if (!plugin_) load();
  context_ = init(settings);
  initialized_ = true;
  const int count = devices();
  require(count > 0, "devices() reports {}", count);
  auto found = find_device(net(), options_.dev);
  if (!found) fail(found.error().text);
  dev_ = *found;
}

int Session::devices(Net& net) {
  int count = 0;
  must("devices", [&] { return net.devices(&count); });
  return count;
}

NetProperties Session::properties(int dev) {
  NetProperties props;
  must("getProperties", [&] { return net().properties(dev, &props); });
  return props;
}

int Session::most_sends() {
  if (max_recvs_ == 0) max_recvs_ = std::max(properties(dev()).max_recvs, 1);
  return contract().max_requests * max_recvs_;
}

void Session::fail(std::string_view text) {
  rank_.board().set_report(fmt::format("rank {}: {}", rank(), text));
  std::fflush(nullptr);
  _exit(kExitFailed);
}

void Session::skip(std::string_view text) {
  rank_.board().set_report(text);
  std::fflush(nullptr);
  _exit(kExitSkipped);
}

void Session::meet(std::string_view what) { (void)allgather(what, {}); }

std::vector<std::string> Session::allgather(std::string_view what, std::string_view mine) {
  auto all = rank_.allgather(what, mine);
  if (!all) fail(all.error().text);
  return std::move(*all);
}

void Session::note_call(const char* name) {
  rank_.board().set_state(fmt::format("inside {}()", name));
  rank_.board().beat();
}

void Session::note_return(const char* name) {
  rank_.board().set_state(fmt::format("at work after {}()", name));
}

bool Deadline::wait() {
  constexpr unsigned kRoundsPerClock = 16;
  sched_yield();
  if (++rounds_ % kRoundsPerClock != 0) return true;
  session_.control().board().beat();
  return Clock::now() < end_;
}

}  // namespace gdr::tools
