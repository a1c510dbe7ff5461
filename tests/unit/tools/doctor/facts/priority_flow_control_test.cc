#include "tools/doctor/facts/priority_flow_control.h"

#include <gtest/gtest.h>
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <cstring>
#include <vector>

namespace gdr::tools::doctor {
namespace {

std::vector<uint8_t> attribute(uint16_t type, const std::vector<uint8_t>& content) {
  const nlattr header{static_cast<uint16_t>(NLA_HDRLEN + content.size()), type};
  std::vector<uint8_t> data(NLA_ALIGN(header.nla_len));
  std::memcpy(data.data(), &header, sizeof(header));
  std::memcpy(data.data() + NLA_HDRLEN, content.data(), content.size());
  return data;
}

std::vector<uint8_t> operator+(std::vector<uint8_t> a, const std::vector<uint8_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What the kernel answers for an interface with PFC on priority 3.
std::vector<uint8_t> answer(uint16_t message_type) {
  ieee_pfc pfc{};
  pfc.pfc_en = 0x08;
  std::vector<uint8_t> content(sizeof(pfc));
  std::memcpy(content.data(), &pfc, sizeof(pfc));
  nlmsghdr header{};
  header.nlmsg_type = message_type;
  std::vector<uint8_t> message(NLMSG_LENGTH(sizeof(dcbmsg)));
  std::memcpy(message.data(), &header, sizeof(header));
  return message + attribute(DCB_ATTR_IFNAME, {'e', 't', 'h', '0', 0}) +
         attribute(DCB_ATTR_IEEE | NLA_F_NESTED,
                   attribute(DCB_ATTR_IEEE_ETS, {1, 2, 3}) + attribute(DCB_ATTR_IEEE_PFC, content));
}

TEST(PriorityFlowControl, Answer_HasThePriorities) {
  EXPECT_EQ(pfc_of_answer(answer(RTM_GETDCB)), 0x08);
}

TEST(PriorityFlowControl, ErrorOfTheKernel_IsUnknown) {
  EXPECT_FALSE(pfc_of_answer(answer(NLMSG_ERROR)).has_value());
}

TEST(PriorityFlowControl, AnswerThatEndsEarly_IsUnknown) {
  const std::vector<uint8_t> whole = answer(RTM_GETDCB);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(pfc_of_answer({whole.data(), size}).has_value()) << size;
  }
}

TEST(PriorityFlowControl, InterfaceWithoutDcb_IsUnknown) {
  EXPECT_FALSE(pfc_priorities("lo").has_value());
  EXPECT_FALSE(pfc_priorities("no_such_interface_at_all").has_value());
}

}  // namespace
}  // namespace gdr::tools::doctor
