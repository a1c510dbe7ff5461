#include "tools/doctor/facts/priority_flow_control.h"

#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/unique_fd.h"

namespace gdr::tools::doctor {
namespace {

constexpr size_t kAttributeHeader = NLA_HDRLEN;

// Finds an attribute in a sequence of them and returns its content.
std::optional<std::span<const uint8_t>> dcb_attribute(std::span<const uint8_t> data, int type) {
  while (data.size() >= sizeof(nlattr)) {
    nlattr header{};
    std::memcpy(&header, data.data(), sizeof(header));
    if (header.nla_len < kAttributeHeader || header.nla_len > data.size()) return {};
    if ((header.nla_type & NLA_TYPE_MASK) == type) {
      return data.subspan(kAttributeHeader, header.nla_len - kAttributeHeader);
    }
    data = data.subspan(std::min<size_t>(NLA_ALIGN(header.nla_len), data.size()));
  }
  return {};
}

std::vector<uint8_t> dcb_request(const std::string& netdev) {
  const size_t length = NLMSG_LENGTH(sizeof(dcbmsg));
  std::vector<uint8_t> request(length + kAttributeHeader + NLA_ALIGN(netdev.size() + 1));
  nlmsghdr header{};
  header.nlmsg_len = static_cast<uint32_t>(request.size());
  header.nlmsg_type = RTM_GETDCB;
  header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  dcbmsg message{};
  message.cmd = DCB_CMD_IEEE_GET;
  nlattr name{};
  name.nla_len = static_cast<uint16_t>(kAttributeHeader + netdev.size() + 1);
  name.nla_type = DCB_ATTR_IFNAME;
  std::memcpy(request.data(), &header, sizeof(header));
  std::memcpy(request.data() + NLMSG_HDRLEN, &message, sizeof(message));
  std::memcpy(request.data() + length, &name, sizeof(name));
  std::memcpy(request.data() + length + kAttributeHeader, netdev.data(), netdev.size());
  return request;
}

}  // namespace

std::optional<uint8_t> pfc_of_answer(std::span<const uint8_t> answer) {
  nlmsghdr header{};
  if (answer.size() < NLMSG_LENGTH(sizeof(dcbmsg))) return {};
  std::memcpy(&header, answer.data(), sizeof(header));
  if (header.nlmsg_type == NLMSG_ERROR) return {};
  const auto ieee = dcb_attribute(answer.subspan(NLMSG_LENGTH(sizeof(dcbmsg))), DCB_ATTR_IEEE);
  if (!ieee) return {};
  const auto pfc = dcb_attribute(*ieee, DCB_ATTR_IEEE_PFC);
  if (!pfc || pfc->size() < sizeof(ieee_pfc)) return {};
  ieee_pfc found{};
  std::memcpy(&found, pfc->data(), sizeof(found));
  return found.pfc_en;
}

std::optional<uint8_t> pfc_priorities(const std::string& netdev) {
  if (netdev.empty() || netdev.size() >= IFNAMSIZ) return {};
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket.valid()) return {};
  const timeval limit{1, 0};  // the kernel answers at once, or the driver is stuck
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  const std::vector<uint8_t> request = dcb_request(netdev);
  if (send(socket.get(), request.data(), request.size(), 0) < 0) return {};
  std::array<uint8_t, 16384> answer{};
  const ssize_t length = recv(socket.get(), answer.data(), answer.size(), 0);
  if (length <= 0) return {};
  return pfc_of_answer({answer.data(), static_cast<size_t>(length)});
}

}  // namespace gdr::tools::doctor
