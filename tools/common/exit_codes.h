// Exit codes of nccl-gdr.
#pragma once

namespace gdr::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // a conformance case failed, or results were wrong
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCouldNotRun = 3;

// Of with-softhca, as env(1) has it: the program was not started.
inline constexpr int kExitNoSofthca = 125;

}  // namespace gdr::tools
