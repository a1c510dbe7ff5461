#include "tests/unit/tools/prediction/random_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tests/unit/tools/prediction/dice.h"

namespace gdr::topology::nccl {
namespace {

constexpr int kMostGpus = 16;
constexpr int kDgx1Gpus = 8;
// NVLinks between the GPUs of a DGX-1V.
constexpr int kDgx1Mesh[kDgx1Gpus][kDgx1Gpus] = {
    {0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
    {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
    {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};

// An element of the tree, with its text up to the children.
struct Branch {
  std::string open;    // "<pci ...>"
  std::string close;   // "</pci>"
  int parent = -1;     // another branch
  int depth = 0;       // switches up to here
  bool lower = false;  // it is a lower-level Broadcom part, or below one
  std::vector<int> children;
};

class Maker {
 public:
  explicit Maker(uint64_t seed) : dice_(seed) {}

  std::string make() {
    choose();
    add_cpus();
    add_switches();
    add_gpus();
    add_hcas();
    if (dice_.chance(12)) add_pci_links();
    std::string xml = "<system version=\"1\">\n";
    std::vector<int> cpus;
    for (int cpu = 0; cpu < cpus_; ++cpu) cpus.push_back(cpu);
    if (dice_.chance(10)) dice_.shuffle(&cpus);
    for (const int cpu : cpus) write(cpu, 1, &xml);
    xml += "</system>\n";
    return xml;
  }

 private:
  void choose() {
    cpus_ = dice_.one_of<int>({1, 1, 2, 2, 2, 3, 4});
    gpus_ = dice_.one_of<int>({1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 8, 12, 16});
    hcas_ = dice_.one_of<int>({0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 10, 12, 16});
    capability_ = dice_.one_of<int>({60, 61, 70, 75, 80, 80, 86, 89, 90, 90, 90, 100, 103});
    arm_ = dice_.chance(15);
    c2c_ = arm_ ? dice_.chance(70) : dice_.chance(3);
    broadcom_ = dice_.chance(30);
    even_links_ = dice_.chance(70);
    speed_ = dice_.one_of<int>({100000, 200000, 200000, 400000, 400000, 800000});
    even_speeds_ = dice_.chance(65);
    fully_known_ = dice_.chance(80);
    without_pci_ = dice_.one_of<int>({0, 0, 0, 2, 30});
    buses_.resize(200);
    for (size_t bus = 0; bus < buses_.size(); ++bus) buses_[bus] = static_cast<int>(bus) + 1;
    if (dice_.chance(60)) dice_.shuffle(&buses_);
  }

  int add(std::string open, std::string close, int parent) {
    const int depth = parent < 0 ? 0 : branches_[static_cast<size_t>(parent)].depth + 1;
    branches_.push_back(Branch{std::move(open), std::move(close), parent, depth, false, {}});
    const int added = static_cast<int>(branches_.size()) - 1;
    if (parent >= 0) branches_[static_cast<size_t>(parent)].children.push_back(added);
    return added;
  }

  std::string next_address() {
    const int bus = buses_.back();
    buses_.pop_back();
    return fmt::format("{:04x}:{:02x}:00.0", bus % 7 == 0 ? 1 : 0, bus);
  }

  void add_cpus() {
    const bool amd = dice_.chance(30);
    const int model = dice_.one_of<int>({79, 85, 106, 143, 143, 207});
    const bool unknown_node = cpus_ == 1 && dice_.chance(20);
    for (int cpu = 0; cpu < cpus_; ++cpu) {
      const std::string kind =
          arm_
              ? R"(arch="arm64" vendor="ARM" familyid="0" modelid="0")"
              : fmt::format(R"(arch="x86_64" vendor="{}" familyid="{}" modelid="{}")",
                            amd ? "AuthenticAMD" : "GenuineIntel", amd ? 143 : 6, amd ? 17 : model);
      add(fmt::format(R"(<cpu numaid="{}" affinity="ff" {}>)", unknown_node ? -1 : cpu, kind),
          "</cpu>", -1);
    }
  }

  // Returns vendor, device and subsystem of a switch.
  std::string switch_ids(bool below_lower) {
    lower_ = below_lower;
    const auto ids = [](int vendor, int device, int subvendor, int subdevice) {
      return fmt::format(R"(vendor="{:#06x}" device="{:#06x}" subsystem_vendor="{:#06x}" )"
                         R"(subsystem_device="{:#06x}")",
                         vendor, device, subvendor, subdevice);
    };
    if (broadcom_ && dice_.chance(85)) {
      if (broadcom_4_) return ids(0x1000, 0xc010, 0x1000, 0xa000 + dice_.roll(0x1000));
      // A part of the lower level is never above one of the upper level: NCCL would merge upward,
      // by array positions; see may_link_broadcom().
      const int level = below_lower ? 1 + dice_.roll(2) : dice_.roll(3);
      lower_ = level > 0;
      return ids(0x1000, 0xc030, 0x1000, level * 0x1000 + dice_.roll(0x1000));
    }
    if (!fully_known_ && dice_.chance(50)) return "";
    return ids(0x10b5, 0x9765, 0x10b5, 0x9765);
  }

  std::string link() {
    static const std::vector<std::string> kSpeeds = {
        "2.5 GT/s PCIe",  "5.0 GT/s PCIe",  "8.0 GT/s PCIe",
        "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe",
        "16 GT/s",        "8 GT/s",         ""};
    if (main_link_.empty()) {
      main_link_ = fmt::format(R"( link_speed="{}" link_width="{}")", dice_.one_of(kSpeeds),
                               dice_.chance(85) ? 16 : 0);
    }
    if (even_links_ || dice_.chance(40)) return main_link_;
    if (!fully_known_ && dice_.chance(30)) return "";
    return fmt::format(R"( link_speed="{}" link_width="{}")", dice_.one_of(kSpeeds),
                       dice_.one_of<int>({16, 16, 8, 8, 4, 1, 0}));
  }

  void add_switches() {
    broadcom_4_ = dice_.chance(40);
    for (int cpu = 0; cpu < cpus_; ++cpu) {
      std::vector<int> places{cpu};
      const int switches = dice_.chance(25) ? 0 : dice_.roll(7);
      for (int count = 0; count < switches; ++count) {
        int parent = dice_.chance(40) ? cpu : dice_.one_of(places);
        if (branches_[static_cast<size_t>(parent)].depth > 3) parent = cpu;
        const std::string address = next_address();
        const int added =
            add(fmt::format(R"(<pci busid="{}" class="0x060400" {}{}>)", address,
                            switch_ids(branches_[static_cast<size_t>(parent)].lower), link()),
                "</pci>", parent);
        branches_[static_cast<size_t>(added)].lower = lower_;
        places.push_back(added);
        switches_.emplace_back(added, address);
      }
      places_.insert(places_.end(), places.begin(), places.end());
    }
  }

  int place() {
    // Half of the devices are near the one before, as on real boards.
    if (last_place_ < 0 || dice_.chance(60)) last_place_ = dice_.one_of(places_);
    return last_place_;
  }

  void add_gpus() {
    std::vector<std::string> addresses;
    for (int gpu = 0; gpu < gpus_; ++gpu) addresses.push_back(next_address());
    std::vector<std::string> sorted = addresses;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int> devs;
    for (int dev = 0; dev < gpus_; ++dev) devs.push_back(dev);
    if (dice_.chance(10)) dice_.shuffle(&devs);
    const std::vector<std::string> links = gpu_links(addresses);
    const bool mixed = dice_.chance(8);
    const bool without_gdr = dice_.chance(6);
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      const auto index = static_cast<size_t>(gpu);
      const auto position = static_cast<size_t>(
          std::find(sorted.begin(), sorted.end(), addresses[index]) - sorted.begin());
      const int capability = mixed ? dice_.one_of<int>({70, 80, 90, 100}) : capability_;
      const std::string head = fmt::format(R"(<gpu dev="{}" sm="{}" gdr="{}")", devs[position],
                                           capability, without_gdr && dice_.chance(50) ? 0 : 1);
      std::string text;
      if (capability >= 100 && dice_.chance(4)) {
        for (const int half : {0, 1}) {
          text += fmt::format(R"({} mlopart="{}">{}</gpu>)", head, half, links[index]);
        }
      } else {
        text = head + ">" + links[index] + "</gpu>";
      }
      add(fmt::format(R"(<pci busid="{}" class="0x030200" vendor="0x10de"{}>)", addresses[index],
                      link()) +
              text,
          "</pci>", place());
    }
  }

  // Returns the <nvlink> and <c2c> elements of each GPU.
  std::vector<std::string> gpu_links(const std::vector<std::string>& addresses) {
    std::vector<std::string> links(addresses.size());
    int count[kMostGpus][kMostGpus] = {};
    const int kind = dice_.roll(100);
    if (kind < 35) {
      const int each = dice_.one_of<int>({6, 12, 18, 18});
      const bool same = dice_.chance(80);
      const bool all = dice_.chance(85);
      for (std::string& text : links) {
        if (!all && dice_.chance(40)) continue;
        text = fmt::format(R"(<nvlink target="fffffff:ffff:ff" count="{}" tclass="0x068000"/>)",
                           same ? each : 1 + dice_.roll(18));
      }
    } else if (kind < 45 && gpus_ == kDgx1Gpus) {
      std::copy_n(&kDgx1Mesh[0][0], kDgx1Gpus * kDgx1Gpus, &count[0][0]);
      spread(&count[0][0]);
    } else if (kind < 65 && gpus_ <= kDgx1Gpus) {
      const int density = 20 + dice_.roll(80);
      const bool one_way = dice_.chance(4);
      for (int a = 0; a < gpus_; ++a) {
        for (int b = 0; b < a; ++b) {
          if (!dice_.chance(density)) continue;
          count[a][b] = 1 + dice_.roll(4);
          count[b][a] = one_way && dice_.chance(20) ? 0 : count[a][b];
        }
      }
    }
    for (int a = 0; a < gpus_; ++a) {
      for (int b = 0; b < gpus_; ++b) {
        if (count[a][b] == 0) continue;
        links[static_cast<size_t>(a)] +=
            fmt::format(R"(<nvlink target="{}" count="{}" tclass="0x030200"/>)",
                        addresses[static_cast<size_t>(b)], count[a][b]);
      }
    }
    if (c2c_) add_c2c(&links);
    return links;
  }

  // Widens a matrix of 8 columns to one of kMostGpus columns.
  static void spread(int* count) {
    for (int row = kDgx1Gpus - 1; row > 0; --row) {
      for (int column = kDgx1Gpus - 1; column >= 0; --column) {
        std::swap(count[row * kMostGpus + column], count[row * kDgx1Gpus + column]);
      }
    }
  }

  void add_c2c(std::vector<std::string>* links) {
    const bool all = dice_.chance(85);
    const int mbps = dice_.one_of<int>({44712, 43125, 22000});
    const int lanes = dice_.one_of<int>({1, 5, 8, 10});
    for (std::string& text : *links) {
      if (all || dice_.chance(50)) text += fmt::format(R"(<c2c bw="{}" count="{}"/>)", mbps, lanes);
    }
  }

  std::string speed() {
    if (even_speeds_ || dice_.chance(50)) return fmt::format(R"( speed="{}")", speed_);
    if (dice_.chance(15)) return "";
    return fmt::format(R"( speed="{}")",
                       dice_.one_of<int>({10000, 25000, 100000, 200000, 400000, 800000, 0, -1}));
  }

  void add_hcas() {
    const bool ordered = dice_.chance(75);
    const bool without_gdr = dice_.chance(12);
    const bool shared_guid = dice_.chance(25);
    std::vector<int> devs;
    for (int dev = 0; dev < 2 * hcas_; ++dev) devs.push_back(dev);
    if (!ordered) dice_.shuffle(&devs);
    size_t next = 0;
    for (int hca = 0; hca < hcas_; ++hca) {
      std::string nets;
      const int ports = dice_.chance(12) ? 2 : 1;
      const uint64_t guid =
          shared_guid ? static_cast<uint64_t>(hca / 2) + 1 : static_cast<uint64_t>(hca) + 1;
      const int gdr = without_gdr && dice_.chance(50) ? 0 : 1;
      for (int port = 1; port <= ports; ++port) {
        nets += fmt::format(R"(<net name="mlx5_{}" dev="{}"{} port="{}" guid="{:#x}" gdr="{}"/>)",
                            hca, devs[next++], speed(), port, guid, gdr);
      }
      add_hca("<nic>" + nets + "</nic>");
    }
  }

  // Adds an HCA; some share a card with the one before, some have no PCI function.
  void add_hca(const std::string& nic) {
    if (dice_.chance(without_pci_)) {
      add(nic, "", dice_.roll(cpus_));
      return;
    }
    std::string address;
    int parent = last_hca_parent_;
    if (last_function_ >= 0 && last_function_ < 3 && dice_.chance(15)) {
      address = fmt::format("{}{}", card_, ++last_function_);
    } else {
      const std::string fresh = next_address();
      card_ = fresh.substr(0, fresh.size() - 1);
      last_function_ = 0;
      address = fresh;
      parent = place();
    }
    last_hca_parent_ = parent;
    add(fmt::format(R"(<pci busid="{}" class="0x020700" vendor="0x15b3"{}>)", address, link()) +
            nic,
        "</pci>", parent);
  }

  // Whether `upper` is `lower` or above it.
  bool is_above(int upper, int lower) const {
    while (lower >= 0 && lower != upper) lower = branches_[static_cast<size_t>(lower)].parent;
    return lower == upper;
  }

  // Linked parts of Broadcom stand side by side, on one level, in pairs. Where <pcilink> joins what
  // NCCL merges, or leads to several, NCCL keeps a position in an array while it removes elements
  // before it, gives links to the wrong switch, and crashes or fails: no machine has that.
  bool may_link_broadcom(int a, int b) {
    if (is_above(a, b) || is_above(b, a)) return false;
    if (branches_[static_cast<size_t>(a)].lower != branches_[static_cast<size_t>(b)].lower) {
      return false;
    }
    return linked_.insert(a).second && linked_.insert(b).second;
  }

  void add_pci_links() {
    if (switches_.size() < 2) return;
    const int count = 1 + dice_.roll(3);
    for (int pair = 0; pair < count; ++pair) {
      const auto a = dice_.one_of(switches_);
      const auto b = dice_.one_of(switches_);
      if (a.first == b.first || (broadcom_ && !may_link_broadcom(a.first, b.first))) continue;
      const auto link_to = [this](int from, const std::string& target) {
        const std::string text = fmt::format(R"(<pcilink target="{}"/>)", target);
        std::string& open = branches_[static_cast<size_t>(from)].open;
        if (open.find(text) == std::string::npos) open += text;
      };
      link_to(a.first, b.second);
      if (broadcom_ || !dice_.chance(15)) link_to(b.first, a.second);
    }
  }

  void write(int branch, int indent, std::string* xml) {
    Branch& self = branches_[static_cast<size_t>(branch)];
    std::vector<int> children = self.children;
    if (dice_.chance(50)) dice_.shuffle(&children);
    *xml += std::string(static_cast<size_t>(indent), ' ') + self.open;
    if (!children.empty()) *xml += "\n";
    for (const int child : children) write(child, indent + 1, xml);
    if (!children.empty()) *xml += std::string(static_cast<size_t>(indent), ' ');
    *xml += self.close + "\n";
  }

  Dice dice_;
  int cpus_ = 1;
  int gpus_ = 1;
  int hcas_ = 0;
  int capability_ = 80;
  int speed_ = 0;
  bool arm_ = false;
  bool c2c_ = false;
  bool broadcom_ = false;
  bool broadcom_4_ = false;
  bool lower_ = false;  // the switch made last is a lower-level part, or below one
  bool even_links_ = true;
  bool even_speeds_ = true;
  bool fully_known_ = true;
  int without_pci_ = 0;  // percentage of HCAs that are on no PCI function
  std::string main_link_;
  std::vector<int> buses_;
  std::vector<Branch> branches_;
  std::vector<int> places_;
  std::vector<std::pair<int, std::string>> switches_;
  std::set<int> linked_;
  int last_place_ = -1;
  int last_hca_parent_ = -1;
  int last_function_ = -1;
  std::string card_;
};

}  // namespace

std::string random_machine(uint64_t seed) { return Maker(seed).make(); }

}  // namespace gdr::topology::nccl
