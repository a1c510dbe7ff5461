#include "tests/softhca/rail_loss_side.h"

#include <fmt/format.h>

#include <utility>

namespace gdr::rail_loss {

bool Side::check(abi::ncclResult_t result, const char* call) {
  if (result == abi::ncclSuccess) return true;
  if (error_.empty()) error_ = fmt::format("{}: {}", call, tools::describe(result));
  return false;
}

void Side::set_wrong(const std::string& text) {
  if (wrong_.empty()) wrong_ = fmt::format("connection {}: {}", connection_, text);
}

Step Side::step(size_t end) {
  Step step = Step::kNothing;
  while (!failed() && next_ < end && outstanding_.size() < abi::kMaxRequests && post()) {
    step = Step::kMoved;
  }
  // NCCL tests the requests of each of its channels in order, and those of several in turn.
  for (size_t i = 0; i < outstanding_.size() && !failed(); ++i) {
    int done = 0;
    std::array<int, abi::kMaxRecvs> sizes{};
    if (!check(net_.test(outstanding_[i].request, &done, sizes.data()), "test")) break;
    if (done == 0) continue;
    Outstanding one = outstanding_[i];
    outstanding_.erase(outstanding_.begin() + static_cast<std::ptrdiff_t>(i));
    --i;
    on_done(one, sizes.data());
    step = Step::kCompleted;
  }
  for (Outstanding& one : std::exchange(flushes_, {})) outstanding_.push_back(one);
  return step;
}

// ---- sending

Sender::Sender(tools::Net& net, const Scenario& scenario, int connection, void* comm)
    : Side(net, scenario, connection,
           Memory(scenario.memory, scenario.traffic[connection].send_bytes)),
      comm_(tools::own_send(net, comm)) {
  registration_ = memory_.register_with(net_, comm_.get());
  if (registration_ == nullptr) error_ = "regMr";
}

bool Sender::post() {
  const Group& sent = group(next_);
  const size_t index = sent.send_order[next_part_];
  const Part& part = sent.parts[index];
  memory_.write_message(part, connection_, scenario_.seed);
  void* request = nullptr;
  if (!check(net_.isend(comm_.get(), memory_.address(part.from), part.bytes, part.tag,
                        registration_.get(), nullptr, &request),
             "isend")) {
    return false;
  }
  if (request == nullptr) return false;
  outstanding_.push_back({request, next_, index, false});
  if (++next_part_ == sent.parts.size()) {
    next_part_ = 0;
    ++next_;
  }
  return true;
}

void Sender::on_done(Outstanding& one, const int* sizes) {
  const Part& part = group(one.group).parts[one.part];
  if (static_cast<size_t>(sizes[0]) != part.bytes) {
    set_wrong(
        fmt::format("message {} of {} bytes was sent with {}", part.number, part.bytes, sizes[0]));
  }
  memory_.fill(part.from, part.bytes, kSent);
  ++completed_;
}

void Sender::close() {
  registration_.reset();
  comm_.reset();
}

// ---- receiving

Receiver::Receiver(tools::Net& net, const Scenario& scenario, int connection, void* comm)
    : Side(net, scenario, connection,
           Memory(scenario.memory, scenario.traffic[connection].receive_bytes)),
      comm_(tools::own_recv(net, comm)) {
  registration_ = memory_.register_with(net_, comm_.get());
  if (registration_ == nullptr) error_ = "regMr";
}

bool Receiver::post() {
  const Group& received = group(next_);
  std::array<void*, abi::kMaxRecvs> data{}, handles{}, phandles{};
  std::array<size_t, abi::kMaxRecvs> sizes{};
  std::array<int, abi::kMaxRecvs> tags{};
  for (size_t i = 0; i < received.parts.size(); ++i) {
    data[i] = memory_.address(received.parts[i].to);
    handles[i] = registration_.get();
    sizes[i] = received.parts[i].room;
    tags[i] = received.parts[i].tag;
  }
  void* request = nullptr;
  if (!check(net_.irecv(comm_.get(), static_cast<int>(received.parts.size()), data.data(),
                        sizes.data(), tags.data(), handles.data(), phandles.data(), &request),
             "irecv")) {
    return false;
  }
  if (request == nullptr) return false;
  outstanding_.push_back({request, next_, 0, false});
  ++next_;
  return true;
}

void Receiver::on_done(Outstanding& one, const int* sizes) {
  if (one.flush) return take(one.group);
  const Group& received = group(one.group);
  for (size_t i = 0; i < received.parts.size(); ++i) {
    const Part& part = received.parts[i];
    if (static_cast<size_t>(sizes[i]) == part.bytes) continue;
    set_wrong(fmt::format("message {} of {} bytes was received with {}", part.number, part.bytes,
                          sizes[i]));
  }
  if (scenario_.memory == MemoryKind::kHost || !flush(one)) take(one.group);
}

// Returns false where there is nothing to wait for.
bool Receiver::flush(const Outstanding& one) {
  const Group& received = group(one.group);
  std::array<void*, abi::kMaxRecvs> data{}, handles{};
  std::array<int, abi::kMaxRecvs> sizes{};
  for (size_t i = 0; i < received.parts.size(); ++i) {
    data[i] = memory_.address(received.parts[i].to);
    handles[i] = registration_.get();
    sizes[i] = static_cast<int>(received.parts[i].bytes);
  }
  void* request = nullptr;
  check(net_.iflush(comm_.get(), static_cast<int>(received.parts.size()), data.data(), sizes.data(),
                    handles.data(), &request),
        "iflush");
  if (request != nullptr) flushes_.push_back({request, one.group, 0, true});
  return request != nullptr;
}

// Checks what arrived, and makes every later write into the buffers visible.
void Receiver::take(size_t index) {
  for (const Part& part : group(index).parts) {
    if (!memory_.holds_message(part, connection_, scenario_.seed)) {
      set_wrong(fmt::format("message {} of {} bytes has wrong data", part.number, part.bytes));
    }
    memory_.fill(part.to, part.room, kCanary);
    ++completed_;
  }
}

void Receiver::check_memory() {
  if (!is_over(groups())) return;  // of a message that is not complete, parts may be there
  if (failed()) return;
  if (const auto at = memory_.first_change()) {
    set_wrong(
        fmt::format("offset {} of the receiver's memory was written after its message was "
                    "complete, or outside of any",
                    *at));
  }
}

void Receiver::close() {
  registration_.reset();
  comm_.reset();
}

}  // namespace gdr::rail_loss
