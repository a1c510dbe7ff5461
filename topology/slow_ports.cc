#include "topology/slow_ports.h"

#include <algorithm>
#include <set>

#include "topology/physical_gpus.h"

namespace gdr::topology {
namespace {

std::string gbps(int mbps) { return std::to_string(mbps / 1000) + " Gb/s"; }

// Returns the speed that a port counts with in Mb/s, or 0 where it is unknown.
int speed_of(const Machine& machine, const std::vector<RailCandidate>& ports, PortRef ref) {
  const Port& port = port_of(machine, ref);
  const bool down = port.state == Port::State::kDown;
  if (!down && port.speed_mbps == 0) return 0;
  const PciIds& ids = machine.hcas[ref.hca].ids;
  int speed = down ? 0 : port.speed_mbps;
  for (const RailCandidate& other : ports) {
    const Port& up = port_of(machine, other.ref);
    const bool same_model = ids.vendor != 0 && machine.hcas[other.ref.hca].ids == ids;
    const bool counts = other.excluded.empty() && up.state != Port::State::kDown;
    if (same_model && counts) speed = std::max(speed, up.speed_mbps);
  }
  return speed;
}

class SlowPorts {
 public:
  SlowPorts(const Machine& machine, const PathTable& paths, std::vector<RailCandidate>* ports)
      : machine_(machine), paths_(paths), ports_(*ports) {
    for (const RailCandidate& port : ports_) {
      speeds_.push_back(speed_of(machine, ports_, port.ref));
      kept_.push_back(port.excluded.empty());
    }
    for (const std::vector<size_t>& card : physical_gpus(machine)) gpus_.push_back(card.front());
    before_ = nearest(kept_);
  }

  void exclude() {
    for (int speed : std::set<int>(speeds_.begin(), speeds_.end())) {
      if (speed > 0) exclude(speed);
    }
    const Nearest after = nearest(kept_);
    for (size_t port = 0; port < ports_.size(); ++port) {
      if (!ports_[port].excluded.empty() || kept_[port]) continue;
      ports_[port].excluded = reason(port, after);
    }
    for (size_t port = 0; port < ports_.size(); ++port) {
      if (!is_foreign(port)) continue;
      kept_[port] = false;
      ports_[port].excluded = "down, and of a model of which no port is up";
    }
  }

 private:
  // The nearest ports of each GPU, and how many GPUs have a port among these.
  struct Nearest {
    std::vector<std::vector<size_t>> of_gpu;  // by position in gpus_
    std::vector<int> users;                   // by port

    bool has(size_t gpu, size_t port) const {
      return std::binary_search(of_gpu[gpu].begin(), of_gpu[gpu].end(), port);
    }
  };

  // Returns whether a port is down, no port of its model is up, and each of its GPUs has a port as
  // near that is up.
  bool is_foreign(size_t port) const {
    const bool candidate = kept_[port] && ports_[port].named == nullptr && before_.users[port] > 0;
    if (!candidate || !is_down(port) || speeds_[port] != 0 || !is_alone(port)) return false;
    for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      if (!before_.has(gpu, port)) continue;
      const std::vector<size_t>& own = before_.of_gpu[gpu];
      if (std::none_of(own.begin(), own.end(),
                       [&](size_t other) { return kept_[other] && !is_down(other); })) {
        return false;
      }
    }
    return true;
  }

  // Returns whether the model of the port's card is known, and no port of that model is up.
  bool is_alone(size_t port) const {
    const PciIds& ids = hca_of(machine_, ports_[port].ref).ids;
    for (size_t other = 0; other < ports_.size(); ++other) {
      if (!is_down(other) && hca_of(machine_, ports_[other].ref).ids == ids) return false;
    }
    return ids.vendor != 0;
  }

  bool is_down(size_t port) const {
    return port_of(machine_, ports_[port].ref).state == Port::State::kDown;
  }

  PathClass path(size_t gpu, size_t port) const {
    return paths_.gpu_hca(gpus_[gpu], static_cast<size_t>(ports_[port].ref.hca));
  }

  Nearest nearest(const std::vector<bool>& kept) const {
    Nearest result{std::vector<std::vector<size_t>>(gpus_.size()),
                   std::vector<int>(ports_.size(), 0)};
    for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      std::vector<size_t>& own = result.of_gpu[gpu];
      for (size_t port = 0; port < ports_.size(); ++port) {
        if (!kept[port]) continue;
        if (!own.empty() && path(gpu, port) < path(gpu, own.front())) own.clear();
        if (own.empty() || path(gpu, port) == path(gpu, own.front())) own.push_back(port);
      }
      for (size_t port : own) ++result.users[port];
    }
    return result;
  }

  // Excludes the ports of this speed, but for those whose GPUs would lose by it.
  void exclude(int speed) {
    std::vector<bool> left = kept_;
    for (size_t port = 0; port < ports_.size(); ++port) {
      const bool droppable = ports_[port].named == nullptr && before_.users[port] > 0;
      if (droppable && speeds_[port] == speed) left[port] = false;
    }
    while (left != kept_) {
      const Nearest after = nearest(left);
      std::vector<size_t> losers;
      for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
        if (!is_right_for(gpu, left, after)) losers.push_back(gpu);
      }
      if (losers.empty()) break;
      if (!restore(losers, &left)) left = kept_;
    }
    kept_ = left;
  }

  // Takes back what these GPUs lose; returns whether they lose anything of their own.
  bool restore(const std::vector<size_t>& losers, std::vector<bool>* left) const {
    bool any = false;
    for (size_t gpu : losers) {
      for (size_t port : before_.of_gpu[gpu]) {
        any = any || (kept_[port] && !(*left)[port]);
        (*left)[port] = kept_[port];
      }
    }
    return any;
  }

  bool is_right_for(size_t gpu, const std::vector<bool>& left, const Nearest& after) const {
    double lost = 0;
    int fastest_lost = 0;
    for (size_t port : before_.of_gpu[gpu]) {
      if (left[port]) continue;
      lost += static_cast<double>(speeds_[port]) / before_.users[port];
      fastest_lost = std::max(fastest_lost, speeds_[port]);
    }
    if (fastest_lost == 0) return true;
    double remains = 0;
    int fastest = 0;
    for (size_t port : after.of_gpu[gpu]) {
      remains += static_cast<double>(speeds_[port]) / after.users[port];
      fastest = std::max(fastest, speeds_[port]);
    }
    constexpr double kRounding = 1 + 1e-9;
    if (is_as_near(gpu, after)) {
      return fastest >= 2 * fastest_lost && remains * kRounding >= lost;
    }
    return fastest >= 4 * fastest_lost && remains * kRounding >= 4 * lost;
  }

  // Returns whether ports as near to the GPU as before remain.
  bool is_as_near(size_t gpu, const Nearest& after) const {
    return !after.of_gpu[gpu].empty() &&
           path(gpu, after.of_gpu[gpu].front()) == path(gpu, before_.of_gpu[gpu].front());
  }

  // "slow: 25 Gb/s, where mlx5_1 has 400 Gb/s and is as near to GPU0"
  std::string reason(size_t port, const Nearest& after) const {
    size_t gpu = 0;
    while (!before_.has(gpu, port)) ++gpu;
    size_t fastest = after.of_gpu[gpu].front();
    for (size_t other : after.of_gpu[gpu]) {
      if (speeds_[other] > speeds_[fastest]) fastest = other;
    }
    const std::string name = "GPU" + std::to_string(gpus_[gpu]);
    return "slow: " + gbps(speeds_[port]) + ", where " + port_name(machine_, ports_[fastest].ref) +
           " has " + gbps(speeds_[fastest]) +
           (is_as_near(gpu, after) ? " and is as near to " + name
                                   : std::string(" at ") + to_string(path(gpu, fastest)) +
                                         ", so that " + name + " gains bandwidth");
  }

  const Machine& machine_;
  const PathTable& paths_;
  std::vector<RailCandidate>& ports_;
  std::vector<int> speeds_;   // by port, Mb/s; 0: unknown
  std::vector<bool> kept_;    // by port: not excluded
  std::vector<size_t> gpus_;  // one GPU of each card
  Nearest before_;            // with all ports
};

}  // namespace

void exclude_slow_ports(const Machine& machine, const PathTable& paths,
                        std::vector<RailCandidate>* ports) {
  SlowPorts(machine, paths, ports).exclude();
}

}  // namespace gdr::topology
