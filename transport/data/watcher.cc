#include "transport/data/watcher.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include "base/log.h"

namespace gdr::transport {
namespace {

constexpr std::chrono::milliseconds kTick{1000};

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

// Returns the object that an event concerns: the member of the union that ibv_get_async_event(3)
// names for its type. Null where that is a port.
const void* object_of(const ibv_async_event& event, const HcaContext& hca) {
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      return hca.context();
    case IBV_EVENT_CQ_ERR:
      return event.element.cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq;
    case IBV_EVENT_WQ_FATAL:
      return event.element.wq;
    default:
      return nullptr;
  }
}

bool concerns_port(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE;
}

bool add_to_epoll(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

// Blocks all signals of the calling thread for its lifetime, also where std::thread throws.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Result<std::unique_ptr<Watcher>> Watcher::start(std::chrono::seconds watchdog, bool events_fail) {
  UniqueFd epoll = UniqueFd::of_this_process([] { return epoll_create1(EPOLL_CLOEXEC); });
  UniqueFd wake = UniqueFd::of_this_process([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!epoll.valid() || !wake.valid() || !add_to_epoll(epoll.get(), wake.get())) {
    return fail_errno(Code::kSystem, "creating the watcher's descriptors failed", errno);
  }
  return std::unique_ptr<Watcher>(
      new Watcher(std::move(epoll), std::move(wake), watchdog, events_fail));
}

Watcher::Watcher(UniqueFd epoll, UniqueFd wake, std::chrono::seconds watchdog, bool events_fail)
    : epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      events_fail_(events_fail),
      watchdog_(watchdog) {
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
void Watcher::watch_fd(int fd) {
  if (add_to_epoll(epoll_.get(), fd)) return;
  GDR_WARN(
      "watching a file descriptor failed (errno %d); it is looked at once a second instead, so "
      "that a peer that dies is noticed a little later. Fix: raise fs.epoll.max_user_watches",
      errno);
  std::lock_guard lock(mutex_);
  polled_.insert(fd);
}

void Watcher::add(const std::shared_ptr<PeerLink>& link, std::vector<const void*> objects) {
  {
    std::lock_guard lock(mutex_);
    links_[link->fd()] = Watched{link, std::move(objects)};
  }
  watch_fd(link->fd());
  wake_up();  // without links the thread sleeps with no time-out
}

void Watcher::remove(const PeerLink* link) {
  std::lock_guard lock(mutex_);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link->fd(), nullptr);
  polled_.erase(link->fd());
  links_.erase(link->fd());
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
    GDR_WARN("%s: its asynchronous events cannot be watched (errno %d)", hca->name().c_str(),
             errno);
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
  for (int i = 0; i < n; ++i) on_ready(events[i].data.fd);
  {
    // After on_ready has emptied wake_: a stop before that is seen here, a later one wakes again.
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
  }
  const Clock::time_point now = Clock::now();
  if (now >= std::min(next_tick_, next_deadline_)) tick(now);
  return true;
}

int Watcher::wait_milliseconds() {
  {
    std::lock_guard lock(mutex_);
    if (links_.empty()) return -1;
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::min(next_tick_, next_deadline_) - Clock::now()) +
                    std::chrono::milliseconds(1);
  return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kTick).count());
}

void Watcher::on_ready(int fd) {
  if (fd == wake_.get()) {
    uint64_t count;
    (void)!read(fd, &count, sizeof(count));
    return;
  }
  std::shared_ptr<PeerLink> link;
  std::shared_ptr<HcaContext> hca;
  {
    std::lock_guard lock(mutex_);
    if (auto it = links_.find(fd); it != links_.end()) link = it->second.link;
    if (auto it = hcas_.find(fd); it != hcas_.end()) hca = it->second;
  }
  if (hca != nullptr) on_hca_event(*hca);
  if (link != nullptr && !link->on_readable(Clock::now())) {
    next_deadline_ = std::min(next_deadline_, link->deadline());
    if (link->deaf()) next_tick_ = Clock::now();
    // The socket has ended. It leaves the epoll set, where it would be readable for
    // good, but stays open: links_ is keyed by its number, which must not be reused.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    std::lock_guard lock(mutex_);
    polled_.erase(fd);
  }
}

void Watcher::on_hca_event(HcaContext& hca) {
  ibv_async_event event{};
  if (hca.api().get_async_event(hca.context(), &event) != 0) return;
  // On every path: ibv_destroy_qp waits until the events of its QP are acknowledged.
  auto acknowledge = [&hca](ibv_async_event* taken) { hca.api().ack_async_event(taken); };
  const std::unique_ptr<ibv_async_event, decltype(acknowledge)> acknowledged(&event, acknowledge);
  hca.on_event(event.event_type);
  std::string text = hca.name();
  if (concerns_port(event.event_type)) text += ":" + std::to_string(event.element.port_num);
  text += std::string(" reports \"") + hca.api().event_type_str(event.event_type) + "\"";
  if (is_fatal(event.event_type)) {
    failures_.fatal_event(text, events_fail_, Clock::now());
    if (events_fail_) fail_links_of(object_of(event, hca), text);
  } else if (event.event_type == IBV_EVENT_PORT_ERR) {
    on_port_error(hca, text);
  } else {
    GDR_INFO(log::kNet, "%s", text.c_str());
  }
}

void Watcher::on_port_error(const HcaContext& hca, const std::string& text) {
  const size_t connections = links_of(hca.context()).size();
  if (connections == 0) {
    GDR_INFO(log::kNet, "%s; no connection uses this HCA", text.c_str());
    return;
  }
  GDR_WARN(
      "%s; transfers on it are retried by the HCA for NCCL_IB_TIMEOUT and then fail (connections "
      "of this HCA: %zu). Fix: look at the port's cable and switch, and at dmesg",
      text.c_str(), connections);
}

std::vector<std::shared_ptr<PeerLink>> Watcher::links_of(const void* object) {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<PeerLink>> concerned;
  for (const auto& [fd, watched] : links_) {
    const auto& objects = watched.objects;
    if (std::find(objects.begin(), objects.end(), object) != objects.end()) {
      concerned.push_back(watched.link);
    }
  }
  return concerned;
}

void Watcher::fail_links_of(const void* object, const std::string& text) {
  for (const auto& link : links_of(object)) {
    link->fail_link(Error{Code::kSystem, link->description() + ": " + text}, true);
  }
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
  const std::vector<std::shared_ptr<PeerLink>> all = links();
  for (const auto& link : all) {
    link->on_tick(now);
    next_deadline_ = std::min(next_deadline_, link->deadline());
  }
  report_lost_paths(all, now);
  watchdog_.check(all, now);
}

void Watcher::report_lost_paths(const std::vector<std::shared_ptr<PeerLink>>& links,
                                Clock::time_point now) {
  std::set<const PeerLink*> deaf;
  for (const auto& link : links) {
    if (!link->deaf()) continue;
    deaf.insert(link.get());
    if (reported_.contains(link.get())) continue;
    const auto connections = std::count_if(links.begin(), links.end(), [&](const auto& other) {
      return other->peer().host == link->peer().host;
    });
    failures_.path_lost(*link, static_cast<size_t>(connections), now);
  }
  reported_ = std::move(deaf);
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
  failures_.link_failed(link, connections, Clock::now());
}

}  // namespace gdr::transport
