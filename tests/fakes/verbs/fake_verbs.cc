// What a test steers and observes.
#include "tests/fakes/verbs/fake_verbs.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "tests/fakes/verbs/objects.h"

namespace fake_verbs {

Port& FakeVerbs::port(const std::string& hca, int port) {
  return config(hca).ports.at(static_cast<size_t>(port) - 1);
}

HcaConfig& FakeVerbs::config(const std::string& hca) {
  std::lock_guard lock(mutex_);
  for (const auto& known : hcas_) {
    if (known->config.name == hca) return known->config;
  }
  require(false, "there is no HCA of that name");
  std::abort();
}

void FakeVerbs::fail_call(Call call, int err, int skip, int times) {
  std::lock_guard lock(mutex_);
  failures_[static_cast<size_t>(call)] = Failure{err, skip, times};
}

int FakeVerbs::failures_left(Call call) const {
  std::lock_guard lock(mutex_);
  return failures_[static_cast<size_t>(call)].times;
}

bool FakeVerbs::fails(Call call) {
  std::lock_guard lock(mutex_);
  Failure& failure = failures_[static_cast<size_t>(call)];
  if (failure.times == 0 || failure.skip-- > 0) return false;
  --failure.times;
  errno = failure.err;
  return true;
}

void FakeVerbs::fail_transfer(ibv_wc_status status, int skip, bool arrives) {
  std::lock_guard lock(mutex_);
  transfer_failure_ = status;
  transfer_failure_skip_ = skip;
  transfer_failure_arrives_ = arrives;
}

void FakeVerbs::fail_each(ibv_wc_status status, std::function<bool(const Transfer&)> which) {
  std::lock_guard lock(mutex_);
  each_failure_ = status;
  fails_ = std::move(which);
}

Qp* FakeVerbs::find_qp(uint32_t qp_num) const {
  auto it = qps_.find(qp_num);
  return it == qps_.end() ? nullptr : it->second;
}

void FakeVerbs::break_qp(uint32_t qp_num) {
  std::lock_guard lock(mutex_);
  enter_error(*find_qp(qp_num));
}

void FakeVerbs::keep_late_receives() {
  std::lock_guard lock(mutex_);
  keeps_late_receives_ = true;
}

void FakeVerbs::inject_arrival(uint32_t qp_num, uint32_t imm_data, uint32_t bytes) {
  std::lock_guard lock(mutex_);
  complete_receive(*find_qp(qp_num), IBV_WC_SUCCESS, imm_data, bytes);
}

void FakeVerbs::raise_event(const std::string& hca, ibv_event_type type, void* object, int port) {
  std::lock_guard lock(mutex_);
  ibv_async_event event{};
  event.event_type = type;
  if (object != nullptr) {
    event.element.qp = static_cast<ibv_qp*>(object);
  } else {
    event.element.port_num = port;
  }
  for (Context* context : contexts_) {
    if (context->hca->config.name != hca) continue;
    const ssize_t written = write(context->events_write.get(), &event, sizeof(event));
    require(written == sizeof(event), "the pipe of events is full");
  }
}

void FakeVerbs::on_destroy(std::function<void(const char*)> callback) {
  std::lock_guard lock(mutex_);
  on_destroy_ = std::move(callback);
}

void* FakeVerbs::find(uint32_t qp_num) const {
  std::lock_guard lock(mutex_);
  return static_cast<ibv_qp*>(find_qp(qp_num));
}

void FakeVerbs::hold() {
  std::lock_guard lock(mutex_);
  held_ = true;
}

int FakeVerbs::deliver(int count) {
  std::lock_guard lock(mutex_);
  return run(count, nullptr);
}

int FakeVerbs::deliver_on(uint32_t qp_num, int count) {
  std::lock_guard lock(mutex_);
  return run(count, &qp_num);
}

void FakeVerbs::release() {
  std::lock_guard lock(mutex_);
  held_ = false;
  run_ready();
}

size_t FakeVerbs::held() const {
  std::lock_guard lock(mutex_);
  return in_flight_.size();
}

void FakeVerbs::forget_posted() {
  std::lock_guard lock(mutex_);
  posted_.clear();
  doorbells_ = 0;
}

size_t FakeVerbs::polls(const ibv_cq* cq) const {
  std::lock_guard lock(mutex_);
  return static_cast<const Cq*>(cq)->polls;
}

int FakeVerbs::posted_receives(uint32_t qp_num) const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(find_qp(qp_num)->receives.size());
}

ibv_qp_attr FakeVerbs::attributes(uint32_t qp_num) const {
  std::lock_guard lock(mutex_);
  return find_qp(qp_num)->attr;
}

std::map<uint32_t, ibv_qp_cap> FakeVerbs::queue_pairs() const {
  std::lock_guard lock(mutex_);
  std::map<uint32_t, ibv_qp_cap> all;
  for (const auto& [number, qp] : qps_) all[number] = qp->cap;
  return all;
}

std::vector<int> FakeVerbs::cq_entries() const {
  std::lock_guard lock(mutex_);
  std::vector<int> all;
  for (const Cq* cq : cqs_) all.push_back(cq->cqe);
  return all;
}

uint32_t FakeVerbs::ece_options(uint32_t qp_num) const {
  std::lock_guard lock(mutex_);
  return find_qp(qp_num)->ece_options;
}

std::vector<ibv_qp_state> FakeVerbs::ece_set_in(uint32_t qp_num) const {
  std::lock_guard lock(mutex_);
  return find_qp(qp_num)->ece_set_in;
}

}  // namespace fake_verbs
