// An observer that keeps what is reported to it.
#pragma once

#include <deque>
#include <vector>

#include "tests/unit/transport/comm_pair.h"
#include "transport/pairs/connection_options.h"

namespace gdr::transport {

// The comms that it observes are destroyed first: they report what has not completed.
struct RecordingObserver {
  struct Event {
    void* parent;
    ObservedWorkRequest work;
    int completions = 0;
  };

  std::deque<Event> events;  // whose addresses are the handles
  bool declines = false;     // returns null, and the event is kept all the same

  WorkRequestObserver observer() { return {posted, completed, this}; }
  TransportOptions options(TransportOptions base = test_options()) {
    base.connection.observer = observer();
    return base;
  }

  // Events that have completed, by their position.
  std::vector<size_t> complete() const {
    std::vector<size_t> some;
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].completions > 0) some.push_back(i);
    }
    return some;
  }
  bool each_completed_once() const {
    for (const Event& event : events) {
      if (event.completions != 1) return false;
    }
    return true;
  }

 private:
  static void* posted(void* context, void* parent, const ObservedWorkRequest& work) {
    auto* self = static_cast<RecordingObserver*>(context);
    self->events.push_back({parent, work});
    return self->declines ? nullptr : &self->events.back();
  }
  static void completed(void* context, void* event) {
    auto* self = static_cast<RecordingObserver*>(context);
    for (Event& known : self->events) {
      if (&known != event) continue;
      ++known.completions;
      return;
    }
    ADD_FAILURE() << "the completion of an event that was not started";
  }
};

}  // namespace gdr::transport
