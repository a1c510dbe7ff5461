// How much each path of a connection has to do, and how fast it is: decides which one carries the
// next chunk. Pure: the time is passed in, so that a test can simulate rails of any speed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gdr::transport {

// A path is a rail of this end together with one of the peer's: the chunks on all pairs of a path
// share both ports. The next chunk goes to the path on which it would be acknowledged first, which
// is the one with the least unacknowledged bytes relative to its speed. So rails of different
// speeds are all busy, and one that slows down gets less at once.
//
// The speed of a path is what was acknowledged, divided by the time in which something was
// outstanding, over the last few MiB. Five things keep that from misleading:
// - A completion is seen when the queue is polled, perhaps long after it came. It is taken to have
//   come just after the poll before. So a path is never underestimated, which would be for good, as
//   it would then get too little to be measured well; one that is overestimated gets more, and is
//   measured.
// - Time that has passed since the last poll says nothing: what was acknowledged in it is not known
//   yet. A thread that posts many chunks, or does not run, would else take the busiest path for
//   slow.
// - The first chunk after a pause waits for a round trip on top of its transfer, which is left out.
// - Short chunks are not measured, as they take as long as their overhead.
// - A path that looks slow and gets nothing is taken for twice as fast from time to time, until it
//   is tried again. The pause before that is many times what the last chunk took.
//
// The mean speed is not enough where a rail loses packets: most of its chunks are fast, and the
// others wait for a timeout. Messages are complete in order, so that one such chunk stops all that
// come behind it. So a path on which chunks are late again and again counts as slower by several
// times that lateness. This is forgotten at a rate at which a further late chunk costs a few
// percent of the time, and sooner by each chunk that comes in time. Such a path is tried with one
// chunk at a time, until several of those in turn were not late: a window of chunks would wait for
// one timeout after the other. Once it is trusted again, the chunks that may be outstanding on it
// double with each one that comes in time, so that a path that is still lossy shows it before a
// window of them is on it. The pauses between tries grow as long as they are late. A chunk
// of a try also has to be worth it: one that takes many times what the fastest path needs is late,
// since a path that loses packets often has a mean speed at which no timeout is late any more. One
// late chunk alone is forgiven, and a path that is steadily slow, or has become so, is not late: a
// chunk is late only where it took longer than the one before it, too.
class RailLoad {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // port_speeds: of each path, in bytes per second; 0 where unknown. It is only the first guess.
  explicit RailLoad(const std::vector<double>& port_speeds);

  size_t size() const { return paths_.size(); }

  // A chunk was posted on the path.
  void post(size_t path, size_t bytes, Time now);
  // The oldest chunk of one of the path's pairs was acknowledged; a poll that began at `now` found
  // its completion.
  void acknowledge(size_t path, size_t bytes, Time now);
  // A poll that began at `now` has taken all completions of the path's chunks that were there.
  void note_poll(size_t path, Time now) { paths_[path].polled_at = now; }
  // A chunk will not be acknowledged on this path, as its pair was lost.
  void drop(size_t path, size_t bytes);

  // The path carries chunks again after a loss: what was measured before counts for nothing.
  void restart(size_t path);

  // Returns which of the paths in `usable` (a bit each, at least one) is to carry a chunk of that
  // many bytes. Paths that are about as good take turns.
  size_t choose(size_t bytes, uint64_t usable, Time now);

  // Whether a path is avoided since the last take_late_paths(), as its chunks were late again and
  // again, and then that of a try as well, by so much that an HCA must have sent it again.
  bool has_late_paths() const { return late_paths_ != 0; }
  // Returns those paths, a bit each.
  uint64_t take_late_paths() { return std::exchange(late_paths_, 0); }
  // Seconds by which the last late chunk of such a path was late.
  double lateness(size_t path) const { return paths_[path].lateness; }

  // Whether it was late again and again, and is not yet trusted like others.
  bool is_on_trial(size_t path) const { return is_on_trial(paths_[path]); }

  uint64_t unacknowledged(size_t path) const { return paths_[path].unacknowledged; }
  // Bytes per second, as choose() takes it.
  double speed(size_t path) const;

 private:
  struct Path {
    uint64_t unacknowledged = 0;  // bytes
    uint32_t chunks = 0;          // that they are in
    bool after_pause = true;      // the next acknowledgement is the first since nothing was posted
    // What the speed is measured by: acknowledged bytes and the seconds that they took, of which
    // the older ones count less.
    double bytes = 0;
    double seconds = 0;
    double port_speed = 0;  // bytes per second
    double last_chunk = 0;  // bytes of the last one that was measured
    Time since{};           // of what is being measured: the last acknowledgement, or posting
    Time polled_at{};       // when all that had been acknowledged was known last
    // When the last acknowledgement was found, or the chunk was posted that is waited for: what is
    // late by more than that is late with certainty, however rarely the queue is polled.
    Time found{};
    Time late_until{};        // its lateness is what is left of this, divided by kPatience
    Time remembered_until{};  // until when another late chunk counts
    double lateness = 0;      // seconds, of the chunk by which it was distrusted last
    uint32_t distrust = 0;    // chunks that have to come in time before it is trusted
    // How many chunks may be outstanding since it is trusted again; 0: any number.
    uint32_t window = 0;
    double last_pace = 0;   // seconds per byte that the last chunk took
    bool reported = false;  // in late_paths_, since it was trusted like others
  };

  // Apart from acknowledge(), which short messages need, too.
  [[gnu::noinline]] void measure(Path& path, double bytes, Time came, Time now);
  // A chunk took so many seconds at least; called before its speed counts.
  void judge(Path& path, double bytes, double seconds, Time now);
  void note_late(Path& path, double seconds, Time now);
  void note_in_time(Path& path, Time now);
  // Whether it was late again and again, and is not yet trusted like others.
  static bool is_on_trial(const Path& path) { return path.distrust > 0 || path.window > 0; }
  // Measured, of the fastest path that is not on trial, in bytes per second; 0 where there is none.
  double trusted_speed() const;
  // Whether one more chunk would be one too many for a path that was late.
  static bool is_full(const Path& path);
  void retry_if_idle(Path& path, Time now);
  // Seconds until a chunk of that many bytes would be acknowledged.
  double delay(size_t path, size_t bytes, Time now) const;

  std::vector<Path> paths_;
  uint64_t late_paths_ = 0;
  double fastest_port_ = 0;  // bytes per second
  size_t turn_ = 0;          // the path that is first in the next tie
};

}  // namespace gdr::transport
