// The commit that was built.
#pragma once

namespace gdr {

// "0123abc", or "0123abc.modified" where the tree had changes when the build was configured. Empty
// in a build of sources without git.
extern const char kCommit[];

}  // namespace gdr
