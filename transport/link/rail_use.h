// How much the connections of a process have used each rail, for the log: what shows that one of
// several rails carries little.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace gdr::transport {

// What RailCounters showed of one rail of one connection.
struct RailUse {
  std::string port;  // "mlx5_0:1"
  uint64_t bytes = 0;
  uint64_t chunks = 0;
  uint64_t losses = 0;
  uint64_t returns = 0;
};

// "mlx5_0:1 900 bytes in 9 chunks (90 %), mlx5_1:1 100 bytes in 1 chunk (10 %, 1 queue pair lost,
// 1 returned)".
std::string to_string(const std::vector<RailUse>& rails);
// "mlx5_0:1 900 (90 %), mlx5_1:1 100 (10 %)".
std::string bytes_text(const std::vector<RailUse>& rails);

// The sums over a process's connections of several rails. Written to the log when the last of them
// closes, a line for each rail, as a job has thousands of connections. Thread-safe.
class RailTotals {
 public:
  void open();
  // sends: the connection's end was the sender. Logs the sums where no other connection is open,
  // and begins anew.
  void close(const std::vector<RailUse>& rails, bool sends);

 private:
  struct Direction {
    uint64_t bytes = 0;
    uint64_t chunks = 0;
    uint64_t of = 0;  // bytes of the same connections over all their rails
  };
  struct Total {
    Direction sent;
    Direction received;
    uint64_t connections = 0;
    uint64_t losses = 0;
    uint64_t returns = 0;
  };

  static std::string text_of(const std::string& port, const Total& total);

  std::mutex mutex_;  // guards all that follows
  uint64_t open_ = 0;
  std::map<std::string, Total> totals_;  // by port
};

}  // namespace gdr::transport
