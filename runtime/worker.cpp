#include "runtime/worker.hpp"

#include <utility>
#include <variant>

#include "os/socket.hpp"

namespace daiv::runtime {

bool suits_worker(const Request& request) {
  return std::holds_alternative<CreateSandbox>(request) ||
         std::holds_alternative<KillSandbox>(request) ||
         std::holds_alternative<RemoveSandbox>(request) ||
         std::holds_alternative<AdoptSandbox>(request) ||
         std::holds_alternative<ListSandboxes>(request);
}

void work(const os::UniqueFd& channel, Operations& operations) {
  while (auto message = os::receive_message(channel, max_broker_message_bytes)) {
    const RequestMessage request = decode_request(message->data);
    const Outcome outcome = operations.perform(request.body, std::move(message->fds));
    if (send_outcome(channel, request.number, outcome) == Stay::ends) return;
  }
}

std::vector<int> numbers_of(std::span<const os::UniqueFd> fds) {
  std::vector<int> numbers;
  numbers.reserve(fds.size());
  for (const os::UniqueFd& fd : fds) numbers.push_back(fd.get());
  return numbers;
}

Stay stay_after(std::string_view answer) {
  return std::holds_alternative<Failed>(decode_answer(answer).body) ? Stay::ends
                                                                    : Stay::waits_for_more;
}

Stay send_outcome(const os::UniqueFd& channel, std::uint32_t number, const Outcome& outcome) {
  std::string bytes = encode(AnswerMessage{number, outcome.answer});
  if (bytes.size() > max_broker_message_bytes)
    bytes = encode(
        AnswerMessage{number, Failed{Failure::internal, "the answer is too long for one message"}});
  os::send_message(channel, bytes, numbers_of(outcome.fds));
  return stay_after(bytes);
}

}  // namespace daiv::runtime
