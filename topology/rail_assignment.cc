#include "topology/rail_assignment.h"

#include <algorithm>
#include <map>
#include <set>

#include "topology/dealing.h"
#include "topology/distance.h"
#include "topology/physical_gpus.h"

namespace gdr::topology {
namespace {

// Returns the distance within a path class as one number. A socket outweighs all other parts of the
// distances of 140 GPUs, a step of latency the bridges and switches of 140 GPUs.
int64_t cost_of(const Distance& distance) {
  constexpr int64_t kStep = int64_t{128} * 144, kPackage = kStep * 256 * 144;
  const int hops = distance.switches + (distance.other_host_bridge ? 8 : 0);
  return (distance.other_package ? kPackage : 0) + std::min(distance.numa_latency, 255) * kStep +
         std::min(hops, 127);
}

// Assigns rails to one class of GPUs after the other, all those that are up or all.
class Assigner {
 public:
  Assigner(const Machine& machine, const PathTable& paths, bool only_usable, RailPlan* plan)
      : machine_(machine),
        paths_(paths),
        only_usable_(only_usable),
        plan_(plan),
        load_(plan->rails.size(), 0) {}

  void assign() {
    // Cards with the same nearest rails: those with the fewest first, then in the order of rails.
    std::map<std::pair<size_t, std::vector<int>>, std::vector<Card>> groups;
    for (std::vector<size_t>& gpus : physical_gpus(machine_)) {
      add_load(gpus);
      std::erase_if(gpus, [this](size_t gpu) { return !plan_->gpus[gpu].rails.empty(); });
      if (gpus.empty()) continue;
      std::vector<int> nearest = nearest_rails(gpus.front());
      if (!nearest.empty()) groups[{nearest.size(), nearest}].push_back(std::move(gpus));
    }
    for (const auto& [rails, cards] : groups) divide(cards, rails.second);
  }

 private:
  using Card = std::vector<size_t>;  // the GPUs of a card that have no rail yet

  void add_load(const std::vector<size_t>& gpus) {
    std::set<int> used;
    for (size_t gpu : gpus)
      used.insert(plan_->gpus[gpu].rails.begin(), plan_->gpus[gpu].rails.end());
    for (int rail : used) ++load_[rail];
  }

  Distance distance(size_t gpu, int rail) const {
    return distance_between(machine_, paths_, gpu, plan_->rails[rail].port.hca);
  }

  // Returns the positions of the rails that are nearest to the GPU.
  std::vector<int> nearest_rails(size_t gpu) const {
    std::vector<int> nearest;
    PathClass least = PathClass::kSys;
    for (size_t i = 0; i < plan_->rails.size(); ++i) {
      if (only_usable_ && !plan_->rails[i].usable) continue;
      const PathClass path = paths_.gpu_hca(gpu, plan_->rails[i].port.hca);
      if (nearest.empty() || path < least) {
        nearest.clear();
        least = path;
      }
      if (path == least) nearest.push_back(static_cast<int>(i));
    }
    return nearest;
  }

  // Divides rails among the cards that have them as their nearest: only the rails that the fewest
  // GPUs use, where there is one for each card, else all of them.
  void divide(const std::vector<Card>& cards, const std::vector<int>& rails) {
    int least = load_[rails.front()];
    for (int rail : rails) least = std::min(least, load_[rail]);
    std::vector<int> free;
    for (int rail : rails) {
      if (load_[rail] == least) free.push_back(rail);
    }
    if (free.size() >= cards.size()) {
      deal_rails(cards, free);
    } else {
      deal_cards(cards, rails);
    }
  }

  void deal_rails(const std::vector<Card>& cards, const std::vector<int>& rails) {
    const bool uneven = rails.size() % cards.size() != 0;
    const std::vector<Holder> holders(cards.size(), Holder{rails.size() / cards.size(), uneven});
    const std::vector<int64_t> costs = costs_of(cards, rails);
    const auto dealt =
        deal(rails.size(), holders, MoreGoesTo::kLastHolders,
             [&](size_t rail, size_t card) { return costs[card * rails.size() + rail]; });
    for (size_t card = 0; card < cards.size(); ++card) {
      std::vector<int> own;
      for (size_t i : dealt[card]) own.push_back(rails[i]);
      give(cards[card], std::move(own));
    }
  }

  void deal_cards(const std::vector<Card>& cards, const std::vector<int>& rails) {
    const std::vector<int64_t> costs = costs_of(cards, rails);
    const auto dealt =
        deal(cards.size(), room_of(rails, cards.size()), MoreGoesTo::kFirstHolders,
             [&](size_t card, size_t rail) { return costs[card * rails.size() + rail]; });
    for (size_t i = 0; i < rails.size(); ++i) {
      for (size_t card : dealt[i]) give(cards[card], {rails[i]});
    }
  }

  // Returns how many of `count` cards each rail takes so that they all carry the same in the end.
  std::vector<Holder> room_of(const std::vector<int>& rails, size_t count) const {
    std::vector<int> filled;
    for (int rail : rails) filled.push_back(load_[rail]);
    int top = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto lightest = std::min_element(filled.begin(), filled.end());
      top = std::max(top, ++*lightest);
    }
    std::vector<Holder> room;
    for (size_t i = 0; i < rails.size(); ++i) {
      const int must = std::max(top - 1 - load_[rails[i]], 0);
      room.push_back({static_cast<size_t>(must), load_[rails[i]] < top});
    }
    return room;
  }

  std::vector<int64_t> costs_of(const std::vector<Card>& cards,
                                const std::vector<int>& rails) const {
    std::vector<int64_t> costs;
    for (const Card& card : cards) {
      for (int rail : rails) costs.push_back(cost_of(distance(card.front(), rail)));
    }
    return costs;
  }

  // Gives rails to a card, the nearest first; its partitions get a block of them each.
  void give(const Card& card, std::vector<int> rails) {
    std::stable_sort(rails.begin(), rails.end(), [&](int a, int b) {
      return distance(card.front(), a) < distance(card.front(), b);
    });
    for (int rail : rails) ++load_[rail];
    for (size_t i = 0; i < card.size(); ++i) {
      const size_t from = i * rails.size() / card.size();
      const size_t to = std::max((i + 1) * rails.size() / card.size(), from + 1);
      plan_->gpus[card[i]].rails.assign(rails.begin() + static_cast<long>(from),
                                        rails.begin() + static_cast<long>(to));
    }
  }

  const Machine& machine_;
  const PathTable& paths_;
  const bool only_usable_;
  RailPlan* plan_;
  std::vector<int> load_;  // by rail: how many cards use it
};

}  // namespace

void assign_rails(const Machine& machine, const PathTable& paths, RailPlan* plan) {
  Assigner(machine, paths, false, plan).assign();
  for (GpuRails& own : plan->gpus) {
    std::erase_if(own.rails, [plan](int rail) { return !plan->rails[rail].usable; });
  }
  Assigner(machine, paths, true, plan).assign();
  set_own_paths(paths, plan);
}

}  // namespace gdr::topology
