#include "transport/watch/watcher.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <exception>
#include <new>

#include "base/blocked_signals.h"
#include "base/log.h"
#include "drivers/verbs/wc_text.h"

namespace gdr::transport {
namespace {

constexpr std::chrono::milliseconds kTick{1000};
// An outage may leave thousands of links with deadlines of their own.
constexpr std::chrono::milliseconds kShortestTick{10};

bool is_fatal(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return true;
    default:
      return false;
  }
}

// Returns what a fatal event concerns: the member of the union that ibv_get_async_event(3) names
// for its type; of a QP its CQ, as QPs come and go and their addresses are used again.
EventSource source_of(const ibv_async_event& event, const HcaContext& hca) {
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      return {hca.context()};
    case IBV_EVENT_CQ_ERR:
      return {event.element.cq};
    default:
      return {event.element.qp->send_cq};
  }
}

bool concerns_port(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE;
}

bool add_to_epoll(int epoll, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<Watcher>> Watcher::start(std::chrono::seconds watchdog, bool events_fail,
                                                const sockaddr_storage& address) {
  UniqueFd epoll = UniqueFd::of_this_process([] { return epoll_create1(EPOLL_CLOEXEC); });
  UniqueFd wake = UniqueFd::of_this_process([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!epoll.valid() || !wake.valid() || !add_to_epoll(epoll.get(), wake.get(), EPOLLIN)) {
    return fail_errno(Code::kSystem, "creating the watcher's descriptors failed", errno);
  }
  Result<ListeningSocket> reopen{};
  if (address.ss_family != AF_UNSPEC) reopen = listen_tcp(address);
  if (!reopen) return forward_error(reopen);
  return std::unique_ptr<Watcher>(
      new Watcher(std::move(epoll), std::move(wake), std::move(*reopen), watchdog, events_fail));
}

Watcher::Watcher(UniqueFd epoll, UniqueFd wake, ListeningSocket reopen,
                 std::chrono::seconds watchdog, bool events_fail)
    : epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      events_fail_(events_fail),
      watchdog_(watchdog),
      reopen_port_(std::move(reopen)) {
  // EPOLLET: connections that cannot be accepted would wake the thread all the time.
  if (reopen_port_.fd() >= 0) watch_fd(reopen_port_.fd(), EPOLLIN | EPOLLET);
  // The thread inherits the mask: the application's signals must be delivered to its own threads.
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "gdr-watcher");
}

Watcher::~Watcher() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_up();
  thread_.join();
}

void Watcher::wake_up() {
  uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

// Where epoll refuses a descriptor (fs.epoll.max_user_watches), each tick reads it instead.
void Watcher::watch_fd(int fd, uint32_t events) {
  if (add_to_epoll(epoll_.get(), fd, events)) return;
  const std::string error = std::to_string(errno);
  warn_once("epoll: errno " + error,
            "watching a file descriptor failed (errno " + error +
                "); such descriptors are looked at once a second instead, so that a peer that dies "
                "is noticed a little later. Fix: raise fs.epoll.max_user_watches");
  std::lock_guard lock(mutex_);
  polled_.insert(fd);
}

void Watcher::add(const std::shared_ptr<PeerLink>& link, std::vector<EventSource> sources,
                  std::shared_ptr<Recovery> recovery) {
  // What became due before the thread could see it.
  const bool is_due =
      recovery != nullptr && recovery->steps().deadline() != Clock::time_point::max();
  bool was_empty;
  {
    std::lock_guard lock(mutex_);
    was_empty = links_.empty();
    // The newest descriptor is mostly the highest.
    links_.insert_or_assign(links_.end(), link->fd(),
                            Watched{link, std::move(sources), std::move(recovery)});
  }
  watch_fd(link->fd());
  if (is_due) recoveries_changed_.store(true, std::memory_order_release);
  // Without links the thread sleeps with no time-out. With some it need not learn of another one: a
  // thread that wakes for each takes the locks and the processor of those who set up connections.
  if (was_empty || is_due) wake_up();
}

void Watcher::remove(const PeerLink* link) {
  bool was_last = false;
  {
    std::lock_guard lock(mutex_);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link->fd(), nullptr);
    polled_.erase(link->fd());
    links_.erase(link->fd());
    was_last = links_.empty();
  }
  if (was_last) log_what_is_left();
}

// The thread may sleep until there is a link, which is added without waking it.
void Watcher::warn_of_rail(const std::string& cause, const Device& device, const std::string& rail,
                           const std::string& text) {
  rails_.warn_of(cause, to_string(device), rail, text);
  wake_up();
}

// Firmware may not answer. Where the port is down, that is the cause.
std::future<void> Watcher::check_address(const Device& device, const wire::RailAddress& address) {
  const std::string port = to_string(device), text = to_string(address);
  const auto checked = std::make_shared<std::promise<void>>();
  std::future<void> end = checked->get_future();
  if (!rails_.asks_for_address(port, text)) return end;
  call([this, device, address, port, text, checked] {
    const bool active = device.hca->port_states().is_active(device.port, Clock::now());
    if (active && !has_address(device, address)) rails_.address_is_former(port, text);
    checked->set_value();
  });
  return end;
}

void Watcher::each_second(std::function<bool()> task) {
  bool sleeps;
  {
    std::lock_guard lock(mutex_);
    sleeps = links_.empty() && task_ == nullptr;
    task_ = std::move(task);
    ++tasks_;
  }
  if (sleeps) wake_up();
}

void Watcher::run_task() {
  std::unique_lock lock(mutex_);
  const uint64_t begun = tasks_;
  const std::function<bool()> task = task_;
  lock.unlock();
  if (task == nullptr || task()) return;
  lock.lock();
  if (tasks_ == begun) task_ = nullptr;
}

// There are no ticks until another link comes. Without memory the lines are left out: a connection
// is being closed.
void Watcher::log_what_is_left() {
  try {
    rails_.flush();
    log_moved_counters(MovedCounters::kPatience);
  } catch (const std::bad_alloc&) {
  }
}

void Watcher::log_moved_counters(std::chrono::milliseconds patience) {
  for (const std::string& text : moved_counters_.take_found(patience)) {
    GDR_INFO(log::kInit | log::kNet, "%s", text.c_str());
  }
}

void Watcher::add_hca(const std::shared_ptr<HcaContext>& hca) {
  int fd = hca->context()->async_fd;
  {
    // Both ports of an HCA are devices, with one context.
    std::lock_guard lock(mutex_);
    if (!hcas_.emplace(fd, hca).second) return;
  }
  // get_async_event must not block this thread where another reader has taken the event.
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    GDR_WARN(
        "%s: its asynchronous events cannot be watched (errno %d), so that a failure that only an "
        "event reports is noticed late, by the transfers that fail",
        hca->name().c_str(), errno);
    return;
  }
  watch_fd(fd);
}

// An exception would end the process. What raised it is tried again, since the descriptor is still
// ready or the tick still due; by then there may be memory.
void Watcher::run() {
  constexpr std::chrono::milliseconds kPause(100);
  bool logged = false;
  for (bool runs = true; runs;) {
    try {
      runs = run_once();
      logged = false;
    } catch (const std::exception& error) {
      if (!logged) GDR_WARN("watching connections failed, and is tried again: %s", error.what());
      logged = true;
      std::this_thread::sleep_for(kPause);
    }
  }
}

// Returns false when the thread is to stop.
bool Watcher::run_once() {
  constexpr int kBatch = 16;
  epoll_event events[kBatch];
  int n = epoll_wait(epoll_.get(), events, kBatch, wait_milliseconds());
  for (int i = 0; i < n; ++i) {
    on_ready(events[i].data.fd, (events[i].events & (EPOLLERR | EPOLLHUP)) != 0);
  }
  {
    // After on_ready has emptied wake_: a stop before that is seen here, a later one wakes again.
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
  }
  const Clock::time_point now = Clock::now();
  const bool changed = recoveries_changed_.exchange(false, std::memory_order_acq_rel);
  if (changed || now >= next_recovery_) tick_recoveries(now, false);
  if (now >= reopen_port_.deadline()) take_reopened(now);
  if (now >= std::min(next_tick_, next_deadline_)) tick(now);
  if (now >= rails_.deadline()) rails_.on_tick();
  // Behind the warning of the loss, which waits for those of other connections. One that is due
  // later waits for the end of a minute.
  if (rails_.deadline() > now + kTick) log_moved_counters({});
  return true;
}

int Watcher::wait_milliseconds() {
  {
    std::lock_guard lock(mutex_);
    const bool reopens = reopen_port_.deadline() != Clock::time_point::max();
    const bool warns = rails_.deadline() != Clock::time_point::max();
    if (links_.empty() && task_ == nullptr && !reopens && !warns) return -1;
  }
  const Clock::time_point next = std::min(
      {next_tick_, next_deadline_, next_recovery_, rails_.deadline(), reopen_port_.deadline()});
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()) +
                    std::chrono::milliseconds(1);
  return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kTick).count());
}

// What would be readable for good leaves the epoll set.
void Watcher::leave_fd(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  std::lock_guard lock(mutex_);
  polled_.erase(fd);
}

// has_ended: of an HCA's events.
void Watcher::on_ready(int fd, bool has_ended) {
  if (fd == wake_.get()) {
    uint64_t count;
    (void)!read(fd, &count, sizeof(count));
    return;
  }
  if (fd == reopen_port_.fd()) return take_reopened(Clock::now());
  std::shared_ptr<PeerLink> link;
  std::shared_ptr<HcaContext> hca;
  {
    std::lock_guard lock(mutex_);
    if (auto it = links_.find(fd); it != links_.end()) link = it->second.link;
    if (auto it = hcas_.find(fd); it != hcas_.end()) hca = it->second;
  }
  if (hca != nullptr && !on_hca_event(*hca, has_ended)) leave_fd(fd);
  if (link != nullptr && !link->on_readable(Clock::now())) {
    next_deadline_ = std::min(next_deadline_, link->deadline());
    // The socket has ended. It stays open: links_ is keyed by its number, which must not be reused.
    leave_fd(fd);
  }
}

std::shared_ptr<PeerLink> Watcher::find(const wire::EndProof& proof) {
  for (const auto& link : links()) {
    if (wire::is_same(link->reopen_target().peers, proof)) return link;
  }
  return nullptr;
}

void Watcher::take_reopened(Clock::time_point now) {
  for (ReopenPort::Request& request : reopen_port_.step(now)) {
    const std::shared_ptr<PeerLink> link = find(request.proof);
    if (link == nullptr) {
      request.channel.queue_text(wire::FrameKind::kUnknown, "");
      (void)request.channel.flush();
    } else if (link->on_reopened(std::move(request.channel))) {
      watch_fd(link->fd());
    }
  }
}

// Returns false once the HCA reports nothing any more, as where it was removed: kernels differ in
// whether they report that by an event, by an error of the descriptor, or both.
bool Watcher::on_hca_event(const HcaContext& hca, bool has_ended) {
  ibv_async_event event{};
  errno = 0;
  if (hca.api().get_async_event(hca.context(), &event) != 0) {
    const int err = errno;
    if (!has_ended && (err == 0 || err == EAGAIN || err == EINTR)) return true;
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    take_event(hca, event, " does not report events any more (errno " + std::to_string(err) + ")");
    return false;
  }
  // On every path: ibv_destroy_qp waits until the events of its QP are acknowledged.
  auto acknowledge = [&hca](ibv_async_event* taken) { hca.api().ack_async_event(taken); };
  const std::unique_ptr<ibv_async_event, decltype(acknowledge)> acknowledged(&event, acknowledge);
  take_event(hca, event,
             std::string(" reports \"") + hca.api().event_type_str(event.event_type) + "\"");
  return true;
}

void Watcher::take_event(const HcaContext& hca, const ibv_async_event& event,
                         const std::string& what) {
  hca.on_event(event.event_type);
  std::string text = hca.name();
  if (concerns_port(event.event_type)) text += ":" + std::to_string(event.element.port_num);
  text += what;
  if (is_fatal(event.event_type)) {
    on_fatal_event(hca, event, text);
  } else if (concerns_port(event.event_type)) {
    on_port_event(hca, event, text);
  } else {
    GDR_INFO(log::kNet, "%s", text.c_str());
  }
}

// Connections that recover report what they lose themselves.
void Watcher::on_fatal_event(const HcaContext& hca, const ibv_async_event& event,
                             const std::string& text) {
  std::vector<std::shared_ptr<PeerLink>> concerned;
  size_t recovering = 0;
  for (const Watched& watched : watched_with(source_of(event, hca))) {
    if (watched.recovery != nullptr && watched.recovery->steps().on_event(hca, event)) {
      ++recovering;
    } else {
      concerned.push_back(watched.link);
    }
  }
  // A QP or CQ that no connection has is that of a handshake, which reports its failure itself.
  if (concerned.empty() && (recovering > 0 || event.event_type != IBV_EVENT_DEVICE_FATAL)) {
    GDR_INFO(log::kNet, "%s", text.c_str());
    return;
  }
  const std::string cause = hca.name() + " event " + std::to_string(event.event_type);
  const std::string hint = verbs::event_hint(event.event_type);
  failures_.fatal_event({cause, text, hint, concerned.size(), events_fail_}, Clock::now());
  if (!events_fail_) return;
  for (const auto& link : concerned) {
    link->fail_link(Error{Code::kSystem, link->description() + ": " + text + ". " + hint}, true);
  }
}

// The port is not lost to connections whose last one it is: the HCA's retries may outlast the
// interruption.
void Watcher::on_port_event(const HcaContext& hca, const ibv_async_event& event,
                            const std::string& text) {
  const int port = event.element.port_num;
  PortDown down{hca.name() + ":" + std::to_string(port), text};
  const std::vector<Watched> users = watched_with({hca.context(), port});
  for (const Watched& user : users) {
    if (user.recovery == nullptr || !user.recovery->steps().on_event(hca, event)) {
      ++down.connections;
    } else if (user.recovery->steps().waits_for_port(hca, port)) {
      ++down.waiting;
      down.retries = std::max(down.retries, time_of_retries(user.recovery->steps().options()));
      down.waits = std::max(down.waits, time_without_pairs(user.recovery->steps().options()));
    }
  }
  if (event.event_type == IBV_EVENT_PORT_ERR && down.connections + down.waiting > 0) {
    rails_.flush();
    return failures_.port_down(down, Clock::now());
  }
  // Where the port is used, NCCL_DEBUG=INFO alone shows that it goes down, and that it is back.
  const unsigned long subsystems = users.empty() ? log::kNet : log::kInit | log::kNet;
  GDR_INFO(subsystems, "%s%s", text.c_str(), users.empty() ? "; no connection uses this port" : "");
}

std::vector<Watcher::Watched> Watcher::watched_with(const EventSource& source) {
  std::lock_guard lock(mutex_);
  std::vector<Watched> concerned;
  for (const auto& [fd, watched] : links_) {
    if (std::ranges::count(watched.sources, source) > 0) concerned.push_back(watched);
  }
  return concerned;
}

RecoveryHooks Watcher::recovery_hooks() {
  return {.wake_watcher =
              [this] {
                recoveries_changed_.store(true, std::memory_order_release);
                wake_up();
              },
          .rail_lost = std::bind_front(&RailLog::lost, &rails_),
          .rail_returned = std::bind_front(&RailLog::returned, &rails_),
          .rail_late = std::bind_front(&RailLog::late, &rails_),
          .rail_stays_lost = std::bind_front(&RailLog::stays_lost, &rails_),
          .port_suspected = std::bind_front(&MovedCounters::read_soon, &moved_counters_),
          .address_suspected = std::bind_front(&Watcher::check_address, this)};
}

std::vector<std::shared_ptr<Recovery>> Watcher::recoveries() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Recovery>> all;
  for (const auto& [fd, watched] : links_) {
    if (watched.recovery != nullptr) all.push_back(watched.recovery);
  }
  return all;
}

// all: also those that have nothing due, so that they look at what the peer has written.
void Watcher::tick_recoveries(Clock::time_point now, bool all) {
  const std::vector<std::shared_ptr<Recovery>> some = recoveries();
  next_recovery_ = Clock::time_point::max();
  for (const auto& recovery : some) {
    if (all || recovery->steps().deadline() <= now)
      have_made(recovery, recovery->steps().on_tick(now));
    next_recovery_ = std::min(next_recovery_, recovery->steps().deadline());
  }
}

void Watcher::have_made(const std::shared_ptr<Recovery>& recovery, RecoverySteps::Due due) try {
  for (; !due.stops.empty(); due.stops.pop_back()) {
    const RecoverySteps::Due::Stop& stop = due.stops.back();
    BlockingCalls& stopper = stoppers_.try_emplace(stop.hca, "gdr-stopper").first->second;
    stopper.add([recovery, pair = stop.pair] { recovery->steps().stop(pair); });
  }
  for (; due.revives != 0; due.revives &= due.revives - 1) {
    const int rail = std::countr_zero(due.revives);
    Reviver& reviver = revivers_[due.hcas[rail]];
    reviver.calls.add([recovery, rail, slow = &reviver.slow_paths] {
      recovery->steps().revive_pairs(Clock::now(), *slow, 1u << rail);
    });
  }
} catch (const std::exception&) {
  recovery->steps().take_back(due);
  throw;
}

std::vector<std::shared_ptr<PeerLink>> Watcher::links() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<PeerLink>> all;
  for (const auto& [fd, watched] : links_) all.push_back(watched.link);
  return all;
}

std::set<int> Watcher::polled() {
  std::lock_guard lock(mutex_);
  return polled_;
}

void Watcher::tick(Clock::time_point now) {
  next_tick_ = now + kTick;
  next_deadline_ = Clock::time_point::max();
  for (int fd : polled()) on_ready(fd);
  tick_recoveries(now, true);
  const std::vector<std::shared_ptr<PeerLink>> all = links();
  for (const auto& link : all) {
    const bool was_deaf = link->deaf();
    if (link->on_tick(now)) watch_fd(link->fd());
    next_deadline_ = std::min(next_deadline_, link->deadline());
    if (was_deaf || !link->deaf() || link->failed() || link->peer_gone()) continue;
    const auto connections = std::ranges::count_if(
        all, [&](const auto& other) { return other->peer().host == link->peer().host; });
    failures_.path_lost(*link, static_cast<size_t>(connections), now);
  }
  next_deadline_ = std::max(next_deadline_, now + kShortestTick);
  run_task();
  if (watchdog_.check(all, now)) process_counters_.count_stall();
}

void Watcher::log_failure(const PeerLink& link) {
  size_t connections = 0;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [fd, watched] : links_) {
      const PeerLink& other = *watched.link;
      if (other.peer() == link.peer() && (other.failed() || other.peer_gone())) ++connections;
    }
  }
  rails_.flush();  // the job may end at once
  failures_.link_failed(link, connections, Clock::now());
}

}  // namespace gdr::transport
