// A breadth-first search through all states that a model can reach.
//
// A model has:
//   struct Step            what happened; copyable, `bool fault` says that it is a failure
//   struct State           copyable
//   State initial() const
//   void successors(const State&, std::vector<std::pair<Step, State>>*) const
//   const char* violation(const State&) const   null: none of the properties is violated; the
//                                               initial state violates none
//   bool is_end(const State&) const             what was to be done is done, or has failed
//   uint64_t fingerprint(const State&) const    equal for states that behave alike
//
// States are recognised by fingerprints of 64 bits: with n states, two different ones are taken for
// one with a probability of about n * n / 2^65; one in 300,000 for ten million states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace gdr::model {

// The states that were visited, by fingerprint: 12 bytes each. A hash table with open addressing;
// fingerprints are hashes already.
class FingerprintMap {
 public:
  // Returns the number that the fingerprint has, and whether it is new: it then has `number`.
  std::pair<uint32_t, bool> insert(uint64_t fingerprint, uint32_t number) {
    if (fingerprint == kFree) fingerprint = 1;
    if (size_ * 4 >= fingerprints_.size() * 3) grow();
    const size_t at = find(fingerprint);
    if (fingerprints_[at] == fingerprint) return {numbers_[at], false};
    fingerprints_[at] = fingerprint;
    numbers_[at] = number;
    ++size_;
    return {number, true};
  }

 private:
  static constexpr uint64_t kFree = 0;

  size_t find(uint64_t fingerprint) const {
    const size_t mask = fingerprints_.size() - 1;
    size_t at = fingerprint & mask;
    while (fingerprints_[at] != kFree && fingerprints_[at] != fingerprint) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    FingerprintMap larger(fingerprints_.size() * 2);
    for (size_t i = 0; i < fingerprints_.size(); ++i) {
      if (fingerprints_[i] != kFree) larger.insert(fingerprints_[i], numbers_[i]);
    }
    *this = std::move(larger);
  }

  explicit FingerprintMap(size_t capacity) : fingerprints_(capacity), numbers_(capacity) {}

  std::vector<uint64_t> fingerprints_;
  std::vector<uint32_t> numbers_;
  size_t size_ = 0;

 public:
  FingerprintMap() : FingerprintMap(size_t{1} << 16) {}
};

struct ExplorationLimits {
  size_t states = 0;  // at most; 0: all
  // Looks for states from which no end can be reached unless something else fails.
  bool find_deadlocks = true;
};

template <class Model>
struct Exploration {
  size_t states = 0;
  size_t steps = 0;
  size_t ends = 0;
  uint32_t depth = 0;                       // steps on the longest of the shortest ways to a state
  bool complete = false;                    // all states were visited
  std::string violation;                    // empty: none
  std::vector<typename Model::Step> trace;  // from the initial state to the violation
};

template <class Model>
class Explorer {
 public:
  using Step = typename Model::Step;
  using State = typename Model::State;

  explicit Explorer(const Model& model, ExplorationLimits limits = {})
      : model_(model), limits_(limits) {}

  Exploration<Model> run() {
    add(model_.initial(), kNoParent, 0);
    std::vector<std::pair<Step, State>> next;
    for (uint32_t at = 0; !frontier_.empty(); ++at) {
      const State state = std::move(frontier_.front());
      frontier_.pop_front();
      next.clear();
      model_.successors(state, &next);
      if (!take(next, at)) return std::move(result_);
      if (limits_.states != 0 && nodes_.size() >= limits_.states) return finish();
    }
    result_.complete = true;
    return finish();
  }

 private:
  static constexpr uint32_t kNoParent = UINT32_MAX;
  struct Node {
    uint32_t parent;
    uint16_t number;  // of the step from the parent
    bool is_end;
  };
  struct Edge {
    uint32_t from;
    uint32_t to;
  };

  // Returns false where a successor violates a property.
  bool take(std::vector<std::pair<Step, State>>& next, uint32_t from) {
    for (size_t i = 0; i < next.size(); ++i) {
      ++result_.steps;
      // Before states are compared: the step may violate a property, and yet lead to a state that
      // behaves like one which is known.
      if (const char* text = model_.violation(next[i].second); text != nullptr) {
        result_.violation = text;
        result_.trace = trace_to(from);
        result_.trace.push_back(next[i].first);
        result_.states = nodes_.size();
        return false;
      }
      const uint32_t to = add(std::move(next[i].second), from, static_cast<uint16_t>(i));
      if (limits_.find_deadlocks && !next[i].first.fault) edges_.push_back({from, to});
    }
    return true;
  }

  uint32_t add(State state, uint32_t parent, uint16_t number) {
    const auto index = static_cast<uint32_t>(nodes_.size());
    const auto [known, is_new] = known_.insert(model_.fingerprint(state), index);
    if (!is_new) return known;
    const bool is_end = model_.is_end(state);
    nodes_.push_back({parent, number, is_end});
    result_.ends += is_end ? 1 : 0;
    frontier_.push_back(std::move(state));
    return index;
  }

  Exploration<Model> finish() {
    result_.states = nodes_.size();
    result_.depth =
        static_cast<uint32_t>(trace_to(static_cast<uint32_t>(nodes_.size() - 1)).size());
    if (limits_.find_deadlocks && result_.complete) find_deadlock();
    return std::move(result_);
  }

  // Goes back from all ends; a state that is not found is a deadlock, even where some steps are
  // still possible in it.
  void find_deadlock() {
    std::vector<uint32_t> first(nodes_.size() + 1);
    for (const Edge& edge : edges_) ++first[edge.to + 1];
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<uint32_t> before(edges_.size());
    std::vector<uint32_t> filled(first.begin(), first.end() - 1);
    for (const Edge& edge : edges_) before[filled[edge.to]++] = edge.from;
    std::vector<bool> reaches(nodes_.size());
    std::vector<uint32_t> open;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].is_end) open.push_back(i), reaches[i] = true;
    }
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      for (uint32_t i = first[at]; i < first[at + 1]; ++i) {
        if (reaches[before[i]]) continue;
        reaches[before[i]] = true;
        open.push_back(before[i]);
      }
    }
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (reaches[i]) continue;
      result_.violation = "deadlock";
      result_.trace = trace_to(i);
      return;
    }
  }

  // Repeats the steps that lead to a state.
  std::vector<Step> trace_to(uint32_t index) const {
    std::vector<uint16_t> numbers;
    for (uint32_t at = index; nodes_[at].parent != kNoParent; at = nodes_[at].parent) {
      numbers.push_back(nodes_[at].number);
    }
    std::vector<Step> trace;
    std::vector<std::pair<Step, State>> next;
    State state = model_.initial();
    for (size_t i = numbers.size(); i-- > 0;) {
      next.clear();
      model_.successors(state, &next);
      trace.push_back(next[numbers[i]].first);
      state = std::move(next[numbers[i]].second);
    }
    return trace;
  }

  const Model& model_;
  const ExplorationLimits limits_;
  Exploration<Model> result_;
  FingerprintMap known_;
  std::deque<State> frontier_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
};

}  // namespace gdr::model
