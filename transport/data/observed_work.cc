#include "transport/data/observed_work.h"

#include <utility>

namespace gdr::transport {

std::unique_ptr<ObservedWork> ObservedWork::create(const WorkRequestObserver& observer,
                                                   size_t owners, size_t most_each) {
  if (observer.posted == nullptr) return nullptr;
  return std::unique_ptr<ObservedWork>(new ObservedWork(observer, owners, most_each));
}

bool ObservedWork::posted(size_t owner, void* parent, const ObservedWorkRequest& work) {
  Owner& of = owners_[owner];
  if (of.id != work.id) of.posted = 0;
  of.id = work.id;
  if (of.posted == most_each_) return false;
  void* event = observer_.posted(observer_.context, parent, work);
  // Without an event it takes its place all the same: the completions of a QP are distinguished
  // by their order.
  ++of.posted;
  work_of(owner).back() = {event, work.qp_number, false};
  if (event == nullptr) return false;
  ++open_;
  return true;
}

void ObservedWork::completed(size_t owner, uint32_t qp_number) {
  for (Work& work : work_of(owner)) {
    if (work.done || work.qp_number != qp_number) continue;
    finish(&work);
    return;
  }
}

void ObservedWork::completed(size_t owner) {
  for (Work& work : work_of(owner)) finish(&work);
}

void ObservedWork::complete_all() {
  if (open_ == 0) return;
  for (size_t owner = 0; owner < owners_.size(); ++owner) {
    for (Work& work : work_of(owner)) finish(&work);
  }
}

void ObservedWork::finish(Work* work) {
  work->done = true;
  void* event = std::exchange(work->event, nullptr);
  if (event == nullptr) return;
  --open_;
  observer_.completed(observer_.context, event);
}

}  // namespace gdr::transport
