// Random walks through a model whose states are too many to visit all of them. See explorer.h for
// what a model has.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gdr::model {

template <class Model>
struct Walk {
  size_t steps = 0;
  size_t walks = 0;
  std::string violation;  // empty: none
  std::vector<typename Model::Step> trace;
};

// Walks from the initial state until nothing is possible but failures, `walks` times. That is a
// deadlock where it is no end. The same seed gives the same walks.
template <class Model>
Walk<Model> walk_randomly(const Model& model, uint64_t seed, size_t walks) {
  constexpr uint32_t kFailureEvery = 8;  // steps, about
  constexpr size_t kLongest = 20000;     // far more than any walk that ends needs
  Walk<Model> result;
  std::minstd_rand random(static_cast<uint32_t>(seed));
  std::vector<std::pair<typename Model::Step, typename Model::State>> next;
  std::vector<size_t> choices;
  for (; result.walks < walks; ++result.walks) {
    typename Model::State state = model.initial();
    result.trace.clear();
    for (;;) {
      next.clear();
      model.successors(state, &next);
      const bool fails = random() % kFailureEvery == 0;
      choices.clear();
      bool stuck = true;
      for (size_t i = 0; i < next.size(); ++i) {
        stuck &= next[i].first.fault;
        if (next[i].first.fault == fails) choices.push_back(i);
      }
      if (stuck || result.trace.size() == kLongest) break;
      if (choices.empty()) continue;
      const size_t choice = choices[random() % choices.size()];
      result.trace.push_back(next[choice].first);
      state = std::move(next[choice].second);
      ++result.steps;
      if (const char* text = model.violation(state); text != nullptr) {
        result.violation = text;
        return result;
      }
    }
    if (!model.is_end(state)) {
      result.violation = "deadlock";
      return result;
    }
  }
  result.trace.clear();
  return result;
}

}  // namespace gdr::model
