// What one end sends, and what it receives, over the plugin's table, as NCCL's proxy does.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/softhca/rail_loss_memory.h"

namespace gdr::rail_loss {

// How a side stands after a step.
enum class Step : uint8_t { kNothing, kMoved, kCompleted };

// One end of one connection.
class Side {
 public:
  Side(tools::Net& net, const Scenario& scenario, int connection, Memory memory)
      : net_(net), scenario_(scenario), connection_(connection), memory_(std::move(memory)) {}
  virtual ~Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  // Posts what may be posted, and tests what is outstanding. Groups from `end` on wait.
  Step step(size_t end);
  // Whether all groups before `end` are complete, or the connection has failed.
  bool is_over(size_t end) const { return failed() || (next_ >= end && outstanding_.empty()); }
  bool failed() const { return !error_.empty(); }
  bool is_waiting() const { return !failed() && !outstanding_.empty(); }
  // The call that failed.
  const std::string& error() const { return error_; }
  // What was wrong with data; "" if nothing was.
  const std::string& wrong() const { return wrong_; }
  int connection() const { return connection_; }
  size_t groups() const { return traffic().groups.size(); }
  size_t completed() const { return completed_; }
  size_t outstanding() const { return outstanding_.size(); }
  // Of the memory, when nothing can arrive any more.
  virtual void check_memory() {}
  // Closes the comm.
  virtual void close() = 0;

 protected:
  struct Outstanding {
    void* request;
    size_t group;
    size_t part;  // of a send; a receive is a group
    bool flush;   // of the data of a receive
  };

  const Traffic& traffic() const { return scenario_.traffic[connection_]; }
  const Group& group(size_t index) const { return traffic().groups[index]; }
  // Posts the next message or group. Returns false where there is no room now.
  virtual bool post() = 0;
  virtual void on_done(Outstanding& one, const int* sizes) = 0;
  bool check(abi::ncclResult_t result, const char* call);
  void set_wrong(const std::string& text);

  tools::Net& net_;
  const Scenario& scenario_;
  const int connection_;
  Memory memory_;
  tools::Registration registration_;
  size_t next_ = 0;       // group that is posted next
  size_t completed_ = 0;  // messages
  std::vector<Outstanding> outstanding_;
  std::vector<Outstanding> flushes_;  // that became outstanding in this step
  std::string error_;
  std::string wrong_;
};

class Sender final : public Side {
 public:
  Sender(tools::Net& net, const Scenario& scenario, int connection, void* comm);
  ~Sender() override { registration_.reset(); }  // before its comm
  void close() override;

 private:
  bool post() override;
  void on_done(Outstanding& one, const int* sizes) override;

  tools::NetComm comm_;
  size_t next_part_ = 0;
};

class Receiver final : public Side {
 public:
  Receiver(tools::Net& net, const Scenario& scenario, int connection, void* comm);
  ~Receiver() override { registration_.reset(); }  // before its comm
  void check_memory() override;
  void close() override;

 private:
  bool post() override;
  void on_done(Outstanding& one, const int* sizes) override;
  bool flush(const Outstanding& one);
  void take(size_t group);

  tools::NetComm comm_;
};

}  // namespace gdr::rail_loss
