// The clock behind time-outs and pauses. What waits asks a Now, so that a test can let time pass.
#pragma once

#include <chrono>
#include <functional>

namespace gdr {

using Clock = std::chrono::steady_clock;

// Returns the current time; Clock::now, or a test's own.
using Now = std::function<Clock::time_point()>;

}  // namespace gdr
