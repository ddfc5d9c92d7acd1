#include "os/network_namespace.hpp"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstring>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::os {
namespace {

constexpr std::uint64_t ns_per_second = 1'000'000'000;
constexpr std::size_t address4_bytes = 4;
constexpr std::size_t address6_bytes = 16;

struct RouteQuestion {
  nlmsghdr header{};
  rtmsg route{};
  rtattr attribute{};
  std::array<unsigned char, address6_bytes> address{};
};

RouteQuestion ask_route(std::span<const unsigned char> address, std::uint32_t number) {
  RouteQuestion question;
  std::ranges::copy(address, question.address.begin());
  question.attribute.rta_type = RTA_DST;
  question.attribute.rta_len = static_cast<unsigned short>(RTA_LENGTH(address.size()));
  question.route.rtm_family = address.size() == address4_bytes ? AF_INET : AF_INET6;
  question.route.rtm_dst_len = static_cast<unsigned char>(address.size() * CHAR_BIT);
  question.header.nlmsg_type = RTM_GETROUTE;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.header.nlmsg_seq = number;
  question.header.nlmsg_len =
      static_cast<std::uint32_t>(NLMSG_SPACE(sizeof(rtmsg)) + question.attribute.rta_len);
  return question;
}

// Nothing is delivered to an address that no route leads to: connect(2) says so by itself. EINVAL
// is a blackhole's (ip-route(8)).
bool means_no_route(int number) {
  return number == ENETUNREACH || number == EHOSTUNREACH || number == EACCES || number == EINVAL;
}

template <typename Value>
Value read_value(std::span<const unsigned char> bytes) {
  Value value{};
  if (bytes.size() < sizeof value) throw Error(EBADMSG, "recv", "answer of rtnetlink");
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

bool read_answer(const nlmsghdr& header, std::span<const unsigned char> body) {
  if (header.nlmsg_type == RTM_NEWROUTE) {
    const auto type = read_value<rtmsg>(body).rtm_type;
    return type == RTN_LOCAL || type == RTN_ANYCAST;
  }
  if (header.nlmsg_type != NLMSG_ERROR) throw Error(EBADMSG, "recv", "answer of rtnetlink");
  const int number = -read_value<nlmsgerr>(body).error;
  if (means_no_route(number)) return false;
  throw Error(number, "rtnetlink", "RTM_GETROUTE");
}

}  // namespace

bool is_network_name(std::string_view text) {
  if (text.empty() || text.size() > NAME_MAX || text == "." || text == "..") return false;
  return std::ranges::all_of(text, [](char letter) {
    return letter > ' ' && letter <= '~' && letter != '/' && letter != '"' && letter != '\'';
  });
}

UniqueFd open_network(const std::string& path) {
  // O_NONBLOCK: what lies there may be a FIFO.
  UniqueFd network = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  const int type = ::ioctl(network.get(), NS_GET_NSTYPE);
  if (type != CLONE_NEWNET) throw Error(EINVAL, "network namespace", path);
  return network;
}

NetworkIdentity identify_network(const UniqueFd& network) {
  struct stat status{};
  check(::fstat(network.get(), &status), "fstat", "network namespace");
  return {status.st_ino, static_cast<std::uint64_t>(status.st_ctim.tv_sec) * ns_per_second +
                             static_cast<std::uint64_t>(status.st_ctim.tv_nsec)};
}

std::optional<NetworkIdentity> find_network(const std::string& path) {
  try {
    return identify_network(open_network(path));
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_local_address(const UniqueFd& routes, std::span<const unsigned char> address) {
  if (address.size() != address4_bytes && address.size() != address6_bytes)
    throw Error(EINVAL, "rtnetlink", "length of an address");
  static std::atomic<std::uint32_t> last_number{0};
  const std::uint32_t number = ++last_number;
  const RouteQuestion question = ask_route(address, number);
  check(retry_eintr([&] {
          return ::send(routes.get(), &question, question.header.nlmsg_len, MSG_NOSIGNAL);
        }),
        "send", "rtnetlink");
  // The kernel has answered when send(2) returns; what an earlier question left is passed over.
  for (;;) {
    alignas(nlmsghdr) std::array<unsigned char, 4096> buffer{};
    const auto size =
        check(retry_eintr(
                  [&] { return ::recv(routes.get(), buffer.data(), buffer.size(), MSG_DONTWAIT); }),
              "recv", "rtnetlink");
    const auto bytes = std::span<const unsigned char>(buffer).first(static_cast<std::size_t>(size));
    const auto header = read_value<nlmsghdr>(bytes);
    if (header.nlmsg_seq == number) return read_answer(header, bytes.subspan(NLMSG_HDRLEN));
  }
}

}  // namespace daiv::os
