#include "topology/dealing.h"

#include <algorithm>
#include <limits>

namespace gdr::topology {
namespace {

// What it costs to put an item into a slot. `skew` breaks ties: it grows with the square of the
// distance between the item's and the slot's position, so that the sum is least where both follow
// each other in the same order.
struct SlotCost {
  int64_t cost = 0;
  int64_t skew = 0;
  auto operator<=>(const SlotCost&) const = default;
  SlotCost operator+(const SlotCost& other) const { return {cost + other.cost, skew + other.skew}; }
  SlotCost operator-(const SlotCost& other) const { return {cost - other.cost, skew - other.skew}; }
};

constexpr SlotCost kForbidden{int64_t{1} << 50, 0};
constexpr SlotCost kInfinite{std::numeric_limits<int64_t>::max() / 2, 0};

// A square matrix of costs.
class Costs {
 public:
  explicit Costs(size_t size) : size_(size), all_(size * size) {}
  size_t size() const { return size_; }
  SlotCost& at(size_t row, size_t column) { return all_[row * size_ + column]; }
  const SlotCost& at(size_t row, size_t column) const { return all_[row * size_ + column]; }

 private:
  size_t size_;
  std::vector<SlotCost> all_;
};

// Assigns a column to each row by the Hungarian method: rows are added one by one, each over the
// path of least reduced cost to a free column. Rows and columns count from 1; 0 stands for none.
class Assignment {
 public:
  explicit Assignment(const Costs& costs)
      : costs_(costs),
        row_price_(costs.size() + 1),
        column_price_(costs.size() + 1),
        row_of_(costs.size() + 1, 0),
        from_(costs.size() + 1, 0) {
    for (size_t row = 1; row <= costs.size(); ++row) add(row);
  }

  size_t row_of(size_t column) const { return row_of_[column + 1] - 1; }

 private:
  void add(size_t row) {
    std::vector<SlotCost> least(costs_.size() + 1, kInfinite);
    std::vector<bool> visited(costs_.size() + 1, false);
    row_of_[0] = row;
    size_t column = 0;
    while (row_of_[column] != 0) {
      visited[column] = true;
      column = step(column, visited, &least);
    }
    while (column != 0) {
      row_of_[column] = row_of_[from_[column]];
      column = from_[column];
    }
  }

  // Goes from a taken column to the unvisited one that is cheapest to reach.
  size_t step(size_t column, const std::vector<bool>& visited, std::vector<SlotCost>* least) {
    const size_t row = row_of_[column];
    size_t next = 0;
    for (size_t to = 1; to <= costs_.size(); ++to) {
      if (visited[to]) continue;
      const SlotCost reduced = costs_.at(row - 1, to - 1) - row_price_[row] - column_price_[to];
      if (reduced < (*least)[to]) {
        (*least)[to] = reduced;
        from_[to] = column;
      }
      if (next == 0 || (*least)[to] < (*least)[next]) next = to;
    }
    const SlotCost paid = (*least)[next];
    for (size_t to = 0; to <= costs_.size(); ++to) {
      if (visited[to]) {
        row_price_[row_of_[to]] = row_price_[row_of_[to]] + paid;
        column_price_[to] = column_price_[to] - paid;
      } else {
        (*least)[to] = (*least)[to] - paid;
      }
    }
    return next;
  }

  const Costs& costs_;
  std::vector<SlotCost> row_price_;
  std::vector<SlotCost> column_price_;
  std::vector<size_t> row_of_;  // by column
  std::vector<size_t> from_;    // by column: the column before it on the cheapest path
};

// Room for one item at a holder.
struct Slot {
  size_t holder = 0;
  bool optional = false;
};

std::vector<Slot> slots_of(const std::vector<Holder>& holders) {
  std::vector<Slot> slots;
  for (size_t i = 0; i < holders.size(); ++i) {
    slots.insert(slots.end(), holders[i].must, Slot{i, false});
    if (holders[i].may_have_more) slots.push_back(Slot{i, true});
  }
  return slots;
}

}  // namespace

std::vector<std::vector<size_t>> deal(
    size_t items, const std::vector<Holder>& holders, MoreGoesTo more,
    const std::function<int64_t(size_t item, size_t holder)>& cost) {
  const std::vector<Slot> slots = slots_of(holders);
  Costs costs(slots.size());  // rows after the items stand for optional slots that stay empty
  for (size_t row = 0; row < slots.size(); ++row) {
    for (size_t column = 0; column < slots.size(); ++column) {
      SlotCost& entry = costs.at(row, column);
      if (row >= items) {
        entry = slots[column].optional ? SlotCost{} : kForbidden;
        continue;
      }
      int64_t apart = static_cast<int64_t>(row) - static_cast<int64_t>(column);
      if (more == MoreGoesTo::kLastHolders) apart += static_cast<int64_t>(slots.size() - items);
      entry = {cost(row, slots[column].holder), apart * apart};
    }
  }
  const Assignment assignment(costs);
  std::vector<std::vector<size_t>> dealt(holders.size());
  for (size_t column = 0; column < slots.size(); ++column) {
    const size_t item = assignment.row_of(column);
    if (item < items) dealt[slots[column].holder].push_back(item);
  }
  for (std::vector<size_t>& all : dealt) std::sort(all.begin(), all.end());
  return dealt;
}

}  // namespace gdr::topology
