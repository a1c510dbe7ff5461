#include "tests/unit/tools/prediction/oracle/nccl_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/unit/tools/prediction/oracle/file_tree.h"
#include "tests/unit/tools/prediction/oracle/graph_reader.h"
#include "tests/unit/tools/prediction/oracle/routes.h"

namespace gdr::topology::oracle {
namespace {

constexpr int kShownChannels = 8;

constexpr Ref gpu_ref(size_t index) { return Ref{Kind::kGpu, index}; }
constexpr Ref net_ref(size_t index) { return Ref{Kind::kNet, index}; }
constexpr Ref cpu_ref(size_t index) { return Ref{Kind::kCpu, index}; }

// Returns `value` with its low bits in reverse order; `power` is a power of two.
int mirrored(int value, int power) {
  int result = 0;
  for (int low = 1, high = power >> 1; low < power; low <<= 1, high >>= 1) {
    if ((value & low) != 0) result |= high;
  }
  return result;
}

class Choices {
 public:
  Choices(const std::string& text, const nccl::Settings& settings)
      : settings_(settings),
        rules_(settings.release),
        graph_(build_graph(read_file_tree(text), rules_)),
        gpus_(graph_.count(Kind::kGpu)),
        nets_(graph_.count(Kind::kNet)) {}

  void compute() {
    for (const Kind kind : {Kind::kCpu, Kind::kGpu, Kind::kNet}) {
      for (size_t index = 0; index < graph_.count(kind); ++index) {
        find_routes_to(&graph_, Ref{kind, index}, rules_, settings_.nvb_disable);
      }
    }
    avoid_p2p();
    name_p2c();
    for (size_t net = 0; net < nets_; ++net) {
      for (size_t gpu = 0; gpu < gpus_; ++gpu) {
        if (!settings_.pxn_disable) consider_pxn(gpu, net);
        consider_cpu(gpu, net);
      }
    }
    for (size_t net = 0; net < nets_; ++net) {
      if (rules_.p2c != ReleaseRules::P2c::kNone) local_gpu(net);  // which may fail
    }
  }

  Answer answer() {
    Answer result;
    const std::vector<size_t> gpus = order(Kind::kGpu, [](const Node& node) { return node.rank; });
    const std::vector<size_t> nets = order(Kind::kNet, [](const Node& node) { return node.dev; });
    const auto position = [](const std::vector<size_t>& all, size_t index) {
      const auto found = std::find(all.begin(), all.end(), index);
      return found == all.end() ? -1 : static_cast<int>(found - all.begin());
    };
    for (const size_t gpu : gpus) {
      auto& peers = result.gpu_to_gpu.emplace_back();
      for (const size_t peer : gpus) peers.push_back(answered(gpu_ref(gpu), gpu_ref(peer)));
      auto& devices = result.gpu_to_device.emplace_back();
      auto& modes = result.modes.emplace_back();
      for (const size_t net : nets) {
        AnsweredRoute& there = devices.emplace_back(answered(gpu_ref(gpu), net_ref(net)));
        if (there.type == number(PathClass::kPxn)) there.through = position(gpus, relay(gpu, net));
        modes.push_back(AnsweredModes{mode(gpu, net, false), mode(gpu, net, true)});
      }
      auto& used = result.used.emplace_back();
      for (int channel = 0; channel < kShownChannels && nets_ > 0; ++channel) {
        used.push_back(position(nets, local_net(gpu, channel)));
      }
    }
    for (const size_t net : nets) {
      auto& peers = result.device_to_gpu.emplace_back();
      for (const size_t gpu : gpus) peers.push_back(answered(net_ref(net), gpu_ref(gpu)));
      result.local_gpus.push_back(position(gpus, local_gpu(net)));
    }
    return result;
  }

 private:
  template <class Key>
  std::vector<size_t> order(Kind kind, const Key& key) {
    std::vector<size_t> all(graph_.count(kind));
    for (size_t index = 0; index < all.size(); ++index) all[index] = index;
    std::stable_sort(all.begin(), all.end(), [&](size_t a, size_t b) {
      return key(graph_.at(kind, a)) < key(graph_.at(kind, b));
    });
    return all;
  }

  AnsweredRoute answered(Ref from, Ref to) {
    const Path& path = route(&graph_, from, to);
    return AnsweredRoute{path.type, path.gb_per_s, static_cast<int>(path.hops), -1};
  }

  // Returns the nodes of the kind with the greatest bandwidth, and of these the nearest.
  std::vector<size_t> locals(Ref from, Kind kind) {
    std::vector<size_t> best;
    float bandwidth = 0;
    int type = kUnreached;
    const std::vector<Path>& paths = graph_.at(from).paths[static_cast<size_t>(kind)];
    for (size_t index = 0; index < paths.size(); ++index) {
      const Path& path = paths[index];
      if (path.gb_per_s > bandwidth ||
          (path.gb_per_s == bandwidth && rank(path.type) < rank(type))) {
        bandwidth = path.gb_per_s;
        type = path.type;
        best.clear();
      }
      if (path.gb_per_s == bandwidth && path.type == type) best.push_back(index);
    }
    return best;
  }

  int rank(int type) const { return rank_of(type, rules_); }

  size_t local_cpu(size_t gpu) {
    std::vector<size_t> candidates;
    if (rules_.fastest_cpu) {
      candidates = locals(gpu_ref(gpu), Kind::kCpu);
    } else {
      for (size_t cpu = 0; cpu < graph_.count(Kind::kCpu); ++cpu) {
        if (route(&graph_, gpu_ref(gpu), cpu_ref(cpu)).hops > 0) candidates.push_back(cpu);
      }
    }
    if (candidates.empty()) throw Failure("Error : could not find CPU close to GPU");
    return *std::min_element(candidates.begin(), candidates.end(), [&](size_t a, size_t b) {
      return route(&graph_, gpu_ref(gpu), cpu_ref(a)).hops <
             route(&graph_, gpu_ref(gpu), cpu_ref(b)).hops;
    });
  }

  int p2p_level() {
    if (settings_.p2p_level.has_value() && is_known(*settings_.p2p_level)) {
      return number(*settings_.p2p_level);
    }
    const CpuFacts& cpu = graph_.at(Kind::kCpu, 0).cpu;
    const bool x86 = cpu.arch.rfind("x86_64", 0) == 0;
    const auto made_by = [&cpu](const char* vendor) { return cpu.vendor.rfind(vendor, 0) == 0; };
    if (!rules_.strict_p2p) {
      const bool limited =
          x86 ? made_by("GenuineIntel") || made_by("CentaurHauls") || made_by("  Shanghai  ")
              : cpu.arch.rfind("arm64", 0) == 0;
      return number(limited ? PathClass::kPxb : PathClass::kSys);
    }
    const size_t devices = rules_.device_nodes ? graph_.count(Kind::kDev) : gpus_;
    return number(x86 && made_by("AuthenticAMD") && devices <= 2 ? PathClass::kSys
                                                                 : PathClass::kPxb);
  }

  // A level that the release does not know counts as unset.
  bool is_known(PathClass level) const {
    if (level == PathClass::kC2c) return rules_.knows_c2c_level;
    return level != PathClass::kP2c || rules_.knows_p2c_level;
  }

  // Leads traffic between GPUs that may not use P2P over the CPU of the one that receives.
  void avoid_p2p() {
    for (size_t to = 0; to < gpus_; ++to) {
      for (size_t from = 0; from < gpus_; ++from) {
        if (rank(route(&graph_, gpu_ref(from), gpu_ref(to)).type) <= rank(p2p_level())) continue;
        divert(&graph_, gpu_ref(from), cpu_ref(local_cpu(to)), gpu_ref(to), rules_);
      }
    }
  }

  void name_p2c_where_phb() {
    for (size_t net = 0; net < nets_; ++net) {
      for (size_t gpu = 0; gpu < gpus_; ++gpu) {
        Path& path = route(&graph_, gpu_ref(gpu), net_ref(net));
        const Path& to_cpu = route(&graph_, gpu_ref(gpu), cpu_ref(local_cpu(gpu)));
        if (path.type != number(PathClass::kPhb) || to_cpu.type != number(PathClass::kC2c))
          continue;
        path.type = number(PathClass::kP2c);
        route(&graph_, net_ref(net), gpu_ref(gpu)).type = number(PathClass::kP2c);
      }
    }
  }

  void name_p2c() {
    if (rules_.p2c == ReleaseRules::P2c::kNone) return;
    if (rules_.p2c == ReleaseRules::P2c::kPhb) return name_p2c_where_phb();
    for (size_t gpu = 0; gpu < gpus_; ++gpu) {
      const Ref cpu = cpu_ref(local_cpu(gpu));
      std::vector<size_t> nets = locals(gpu_ref(gpu), Kind::kNet);
      if (rules_.p2c == ReleaseRules::P2c::kAll) {
        nets.clear();
        for (size_t net = 0; net < nets_; ++net) nets.push_back(net);
      }
      for (const size_t net : nets) {
        const int type = joined_class(route(&graph_, gpu_ref(gpu), cpu).type,
                                      route(&graph_, net_ref(net), cpu).type, rules_);
        if (type != number(PathClass::kP2c)) continue;
        for (Path* path : {&route(&graph_, gpu_ref(gpu), net_ref(net)),
                           &route(&graph_, net_ref(net), gpu_ref(gpu))}) {
          path->type = std::min(path->type, type);
        }
      }
    }
  }

  // Sends over the GPU that the device belongs to, where that is linked by NVLink and faster, or
  // where the own route is far.
  void consider_pxn(size_t gpu, size_t net) {
    const int peer = local_gpu(net);
    if (peer == -1 || peer == static_cast<int>(gpu)) return;
    const auto relay = static_cast<size_t>(peer);
    if (rules_.pxn_needs_gdr && mode(relay, net, true) == 0) return;
    const bool over_c2c = rules_.p2c != ReleaseRules::P2c::kNone &&
                          settings_.pxn_c2c.value_or(rules_.pxn_c2c_default);
    const int worse_than = number(rules_.pxn_only_beyond_pxn ? PathClass::kPxn : PathClass::kPxb);
    const Path& own = route(&graph_, gpu_ref(gpu), net_ref(net));
    const Path& other = route(&graph_, gpu_ref(relay), net_ref(net));
    const bool near = other.type <= number(PathClass::kPxb);
    if (!near && !(over_c2c && other.type == number(PathClass::kP2c))) return;
    if (route(&graph_, gpu_ref(relay), gpu_ref(gpu)).type > number(PathClass::kNvl)) return;
    if (other.gb_per_s <= own.gb_per_s && rank(own.type) <= rank(worse_than)) return;
    divert(&graph_, gpu_ref(gpu), gpu_ref(relay), net_ref(net), rules_);
  }

  // Without GPUDirect, data goes over the GPU's CPU.
  void consider_cpu(size_t gpu, size_t net) {
    const int type = route(&graph_, gpu_ref(gpu), net_ref(net)).type;
    if (rules_.keeps_far_routes && type >= number(PathClass::kPhb)) return;
    if (mode(gpu, net, false) != 0) return;
    const Ref cpu = cpu_ref(local_cpu(gpu));
    divert(&graph_, net_ref(net), cpu, gpu_ref(gpu), rules_);
    divert(&graph_, gpu_ref(gpu), cpu, net_ref(net), rules_);
  }

  size_t local_net(size_t gpu, int channel) {
    const std::vector<size_t> nets = locals(gpu_ref(gpu), Kind::kNet);
    if (nets.empty()) throw Failure("Could not find any local path from gpu to net.");
    const auto count = static_cast<int>(nets.size());
    const auto sharing = static_cast<int>(locals(net_ref(nets[0]), Kind::kGpu).size());
    int per_gpu = (count + sharing - 1) / sharing;
    if (rules_.netdevs_policy) {
      const nccl::NetDevicesPolicy& policy = settings_.net_devices;
      if (policy.kind == nccl::NetDevicesPolicy::Kind::kAll) per_gpu = count;
      if (policy.kind == nccl::NetDevicesPolicy::Kind::kMax && policy.max > 0) {
        per_gpu = std::min(policy.max, count);
      }
    }
    int first = graph_.at(gpu_ref(gpu)).dev;
    if (rules_.wraps_at_locals) first %= sharing;
    if ((count & (count - 1)) == 0) first = mirrored(first, count);
    return nets[static_cast<size_t>((first + channel % per_gpu) % count)];
  }

  // Returns the GPU that a device belongs to: the first of the nearest that would use it.
  int local_gpu(size_t net) {
    const std::vector<size_t> gpus = locals(net_ref(net), Kind::kGpu);
    for (int channel = 0; channel < rules_.channels; ++channel) {
      for (const size_t gpu : gpus) {
        if (local_net(gpu, channel) == net) return static_cast<int>(gpu);
      }
    }
    return -1;
  }

  // Returns the GPU over which a PXN route leads.
  size_t relay(size_t gpu, size_t net) {
    const Path& path = route(&graph_, gpu_ref(gpu), net_ref(net));
    size_t step = rules_.device_nodes ? 1 : 0;  // the first step leads to the GPU's own device
    while (step + 1 < path.hops && path.list[step].kind == Kind::kNvs) ++step;
    Ref node = path.list.at(step);
    if (node.kind == Kind::kDev) {
      const Node& device = graph_.at(node);
      for (size_t link = 0; link < device.links; ++link) {
        if (device.slots[link].to.kind != Kind::kGpu) continue;
        node = device.slots[link].to;
        break;
      }
    }
    if (node.kind != Kind::kGpu) {
      throw Failure("Could not find intermediate GPU between GPU rank and NIC");
    }
    if (!rules_.device_nodes) return node.index;
    // NCCL names it by its NVML number, which partitions of one GPU share.
    const int dev = graph_.at(node).dev;
    size_t first = 0;
    while (graph_.at(gpu_ref(first)).dev != dev) ++first;
    return first;
  }

  bool has_nvlink(size_t gpu) {
    for (size_t peer = 0; peer < gpus_; ++peer) {
      if (peer == gpu) continue;
      if (route(&graph_, gpu_ref(gpu), gpu_ref(peer)).type == number(PathClass::kNvl)) return true;
    }
    return false;
  }

  // Returns whether and how NCCL uses GPUDirect; see AnsweredModes.
  int mode(size_t gpu, size_t net, bool send) {
    const Node& node = graph_.at(gpu_ref(gpu));
    if (!graph_.at(net_ref(net)).gpudirect || !node.gpudirect) return 0;
    if (node.partition != -1 && !settings_.gdr_mlopart) return 0;
    if (send) {
      if (settings_.gdr_read == 0) return 0;
      const bool old = node.capability < 80;
      if (settings_.gdr_read < 0 && old && gpus_ > 1 && !has_nvlink(gpu)) return 0;
    }
    const bool c2c = rules_.has_gdr_c2c && settings_.gdr_c2c.value_or(rules_.gdr_c2c_default);
    int level = number(c2c && rules_.p2c == ReleaseRules::P2c::kNearest ? PathClass::kP2c
                                                                        : PathClass::kPxb);
    if (settings_.gdr_level.has_value() && is_known(*settings_.gdr_level)) {
      level = number(*settings_.gdr_level);
    }
    int distance = route(&graph_, gpu_ref(gpu), net_ref(net)).type;
    if (distance == number(PathClass::kPxn)) {
      gpu = relay(gpu, net);
      distance = route(&graph_, gpu_ref(gpu), net_ref(net)).type;
    }
    if (!rules_.has_gdr_c2c) return distance <= level ? 1 : 0;
    const bool over_c2c =
        route(&graph_, gpu_ref(gpu), cpu_ref(local_cpu(gpu))).type == number(PathClass::kC2c);
    const bool p2c = rules_.p2c == ReleaseRules::P2c::kNone
                         ? distance == number(PathClass::kPhb) && over_c2c
                         : distance == number(PathClass::kP2c);
    const bool by_c2c = rules_.p2c == ReleaseRules::P2c::kNearest ? p2c : p2c && c2c;
    if (by_c2c && rules_.p2c != ReleaseRules::P2c::kNearest) distance = number(PathClass::kC2c);
    if (rank(distance) > rank(level)) return 0;
    const bool default_path = by_c2c || (rules_.p2c != ReleaseRules::P2c::kNearest &&
                                         distance == number(PathClass::kC2c));
    return over_c2c && !default_path ? 2 : 1;
  }

  nccl::Settings settings_;
  ReleaseRules rules_;
  NodeGraph graph_;
  size_t gpus_;
  size_t nets_;
};

void append_route(std::string* json, size_t from, size_t to, const AnsweredRoute& route,
                  bool with_relay) {
  const char* name =
      route.type == kUnreached ? "DIS" : to_string(static_cast<PathClass>(route.type));
  *json += fmt::format("[{},{},\"{}\",{:.4f},{}", from, to, name, route.gb_per_s, route.hops);
  *json += with_relay ? fmt::format(",{}],\n", route.through) : std::string("],\n");
}

// Ends a list of lines.
void close_list(std::string* json, const char* rest) {
  if (json->ends_with(",\n")) json->resize(json->size() - 2);
  *json += rest;
}

}  // namespace

Answer ask(const std::string& file_text, const nccl::Settings& settings) {
  try {
    Choices choices(file_text, settings);
    choices.compute();
    return choices.answer();
  } catch (const Failure& failure) {
    Answer answer;
    answer.failure = failure.what();
    return answer;
  }
}

std::string to_json(const Answer& answer) {
  std::string json = fmt::format("{{\"failure\":\"{}\"", answer.failure);
  if (!answer.failure.empty()) return json + "}\n";
  const auto routes = [&json](const char* name, const auto& rows, bool relay, bool skip_own) {
    json += fmt::format("{}\"{}\":[\n", json.ends_with("]") ? ",\n" : "", name);
    for (size_t from = 0; from < rows.size(); ++from) {
      for (size_t to = 0; to < rows[from].size(); ++to) {
        if (!skip_own || from != to) append_route(&json, from, to, rows[from][to], relay);
      }
    }
    close_list(&json, "]");
  };
  json += ",\n";
  routes("gpu_gpu", answer.gpu_to_gpu, false, true);
  routes("to_device", answer.gpu_to_device, true, false);
  routes("from_device", answer.device_to_gpu, false, false);
  json += fmt::format(",\n\"local_gpus\":[{}],\n\"used\":[\n", fmt::join(answer.local_gpus, ","));
  for (const auto& used : answer.used) json += fmt::format("[{}],\n", fmt::join(used, ","));
  close_list(&json, "],\n\"gdr\":[\n");
  for (size_t gpu = 0; gpu < answer.modes.size(); ++gpu) {
    for (size_t net = 0; net < answer.modes[gpu].size(); ++net) {
      const AnsweredModes& modes = answer.modes[gpu][net];
      json += fmt::format("[{},{},{},{}],\n", gpu, net, modes.receive, modes.send);
    }
  }
  close_list(&json, "]}\n");
  return json;
}

}  // namespace gdr::topology::oracle
