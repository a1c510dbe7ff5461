// The data path of a connection whose pairs are on several rails, or are recovered.
#pragma once

namespace gdr::transport {

// A connection either takes the direct path, over pairs of one rail that are not recovered, or has
// a SpreadPath. It costs the direct path nothing: PeerLink's attention is set for good where there
// is a SpreadPath, and Connection::poll, which looks at that anyway, then calls it.
class SpreadPath {
 public:
  virtual ~SpreadPath() = default;
  // Reads completions and does what follows from them. Returns false when the connection has
  // failed.
  virtual bool progress() = 0;
};

}  // namespace gdr::transport
