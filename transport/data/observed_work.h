// The work of a comm that has been reported to its observer and has not completed yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/pairs/work_request_observer.h"

namespace gdr::transport {

// A comm has one only where it is observed, so that all of it is off the path of other comms. It
// allocates when it is created and never again.
//
// Work belongs to an owner, by which its completion is found: a request or a slot, as the comm
// numbers them.
class ObservedWork {
 public:
  // Returns null where nobody observes. Owners are 0 to owners - 1. most_each: work of one owner;
  // what goes beyond it is not observed.
  static std::unique_ptr<ObservedWork> create(const WorkRequestObserver& observer, size_t owners,
                                              size_t most_each);
  // Ends what is open.
  ~ObservedWork() { complete_all(); }
  ObservedWork(const ObservedWork&) = delete;
  ObservedWork& operator=(const ObservedWork&) = delete;

  // Reports it. Returns whether completed() has to be called for the owner. Work with
  // another id than before is of another message, and nothing of the one before is under way.
  bool posted(size_t owner, void* parent, const ObservedWorkRequest& work);
  // Work of the owner has completed on that QP: the oldest one there, as QPs keep the order.
  void completed(size_t owner, uint32_t qp_number);
  // The same where an owner has one piece of work at a time, on whichever QP.
  void completed(size_t owner);
  // Nothing that is open will complete any more; reports that as completions.
  void complete_all();

 private:
  struct Work {
    void* event;  // null: the observer declined it, or its completion has been reported
    uint32_t qp_number;
    bool done;
  };
  struct Owner {
    uint64_t id;    // of the message
    size_t posted;  // of its work
  };

  ObservedWork(const WorkRequestObserver& observer, size_t owners, size_t most_each)
      : observer_(observer), most_each_(most_each), owners_(owners), work_(owners * most_each) {}
  std::span<Work> work_of(size_t owner) {
    return {work_.data() + owner * most_each_, owners_[owner].posted};
  }
  void finish(Work* work);

  const WorkRequestObserver observer_;
  const size_t most_each_;
  std::vector<Owner> owners_;
  std::vector<Work> work_;  // most_each_ for each owner, in the order of posting
  size_t open_ = 0;         // work with an event
};

}  // namespace gdr::transport
