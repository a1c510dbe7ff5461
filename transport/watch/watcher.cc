#include "transport/watch/watcher.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include "base/blocked_signals.h"
#include "base/log.h"

namespace gdr::transport {
namespace {

constexpr std::chrono::milliseconds kTick{1000};
// An outage may leave thousands of links with deadlines of their own.
constexpr std::chrono::milliseconds kShortestTick{10};

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
      watchdog_(watchdog),
      reopen_port_(std::move(reopen)),
      events_fail_(events_fail) {
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
  failures_.warn_once(
      "epoll: errno " + error,
      "watching a file descriptor failed (errno " + error +
          "); such descriptors are looked at once a second instead, so that a peer that dies "
          "is noticed a little later. Fix: raise fs.epoll.max_user_watches");
  std::lock_guard lock(mutex_);
  polled_.insert(fd);
}

void Watcher::add(WatchedLink watched) {
  // What became due before the thread could see it.
  const bool is_due = watched.recovery != nullptr &&
                      watched.recovery->steps().deadline() != Clock::time_point::max();
  const int fd = watched.link->fd();
  links_.add(std::move(watched));
  watch_fd(fd);
  // Otherwise it is not woken: a thread that wakes for each link takes the locks and the processor
  // of those who set up connections.
  if (!is_due) return;
  recoveries_.note_change();
  wake_up();
}

void Watcher::remove(const PeerLink* link) {
  leave_fd(link->fd());
  links_.remove(*link);
}

void Watcher::add_hca(const std::shared_ptr<HcaContext>& hca) {
  int fd = hca->context()->async_fd;
  {
    // Both ports of an HCA are devices, with one context.
    std::lock_guard lock(mutex_);
    if (!hcas_.emplace(fd, hca).second) return;
  }
  // get_async_event must not block this thread where another reader has taken the event.
  (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
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
  recoveries_.run_due(now);
  if (now >= reopen_port_.deadline()) take_reopened(now);
  if (now >= std::min(next_tick_, next_deadline_)) tick(now);
  return true;
}

int Watcher::wait_milliseconds() const {
  const Clock::time_point next =
      std::min({next_tick_, next_deadline_, recoveries_.deadline(), reopen_port_.deadline()});
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
  const std::shared_ptr<PeerLink> link = links_.find(fd);
  std::shared_ptr<HcaContext> hca;
  {
    std::lock_guard lock(mutex_);
    if (auto it = hcas_.find(fd); it != hcas_.end()) hca = it->second;
  }
  if (hca != nullptr && !read_event(*hca, has_ended)) leave_fd(fd);
  if (link != nullptr && !link->on_readable(Clock::now())) {
    next_deadline_ = std::min(next_deadline_, link->deadline());
    // The socket has ended. It stays open: its link is found by its number, which must not be
    // reused.
    leave_fd(fd);
  }
}

void Watcher::take_reopened(Clock::time_point now) {
  for (ReopenPort::Request& request : reopen_port_.step(now)) {
    const std::vector<std::shared_ptr<PeerLink>> all = links_.all();
    const auto found = std::ranges::find_if(all, [&](const auto& link) {
      return wire::is_same(link->reopen_target().peers, request.proof);
    });
    if (found == all.end()) {
      request.channel.queue_text(wire::FrameKind::kUnknown, "");
      (void)request.channel.flush();
    } else if ((*found)->on_reopened(std::move(request.channel))) {
      watch_fd((*found)->fd());
    }
  }
}

RecoveryHooks Watcher::recovery_hooks() {
  const auto wake_watcher = [this] {
    recoveries_.note_change();
    wake_up();
  };
  return {wake_watcher, &rails_};
}

void Watcher::tick(Clock::time_point now) {
  next_tick_ = now + kTick;
  next_deadline_ = Clock::time_point::max();
  std::unique_lock lock(mutex_);
  const std::set<int> polled = polled_;
  const std::function<void()> task = task_;
  lock.unlock();
  for (int fd : polled) on_ready(fd);
  recoveries_.tick(now, /*all=*/true);
  const std::vector<std::shared_ptr<PeerLink>> all = links_.all();
  for (const auto& link : all) {
    const bool was_deaf = link->deaf();
    if (link->on_tick(now)) watch_fd(link->fd());
    next_deadline_ = std::min(next_deadline_, link->deadline());
    if (was_deaf || !link->deaf() || link->failed() || link->peer_gone()) continue;
    failures_.path_lost(*link, now);
  }
  next_deadline_ = std::max(next_deadline_, now + kShortestTick);
  if (task != nullptr) task();
  if (watchdog_.check(all, now)) ++stalls_;
}

ProcessSums Watcher::sums() const {
  ProcessSums sums = links_.sums();
  sums.stalls = stalls_;
  return sums;
}

}  // namespace gdr::transport
