#include "cli/broker_layers.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace daiv::cli {
namespace {

// A message to the broker is bounded; so many names fit easily.
constexpr std::size_t names_per_message = 1000;

images::ImageFailure translate(runtime::Failure kind) {
  switch (kind) {
    case runtime::Failure::corrupt_layer:
      return images::ImageFailure::invalid_image;
    case runtime::Failure::no_space:
      return images::ImageFailure::no_space;
    case runtime::Failure::internal:
    case runtime::Failure::invalid:
    case runtime::Failure::unsupported:
    case runtime::Failure::not_found:
    case runtime::Failure::range_taken:
      break;
  }
  return images::ImageFailure::internal;
}

runtime::Reply ask(runtime::BrokerClient& broker, const runtime::Request& request,
                   const std::vector<int>& fds = {}) {
  try {
    return broker.call(request, fds);
  } catch (const runtime::BrokerGone& error) {  // the daemon starts again
    throw images::ImageError(images::ImageFailure::unreachable, error.what());
  }
}

template <typename Answer>
Answer expect(runtime::Reply reply) {
  if (const auto* failed = std::get_if<runtime::Failed>(&reply.answer)) {
    throw images::ImageError(translate(failed->kind), failed->message);
  }
  auto* answer = std::get_if<Answer>(&reply.answer);
  if (answer == nullptr)
    throw images::ImageError(images::ImageFailure::internal, "broker: answer of another kind");
  return std::move(*answer);
}

}  // namespace

images::LayerBackend::Unpacked BrokerLayers::unpack(const std::string& name,
                                                    const std::string& expected_diff_id,
                                                    const os::UniqueFd& input,
                                                    const Parents& parents) {
  runtime::UnpackLayer request;
  request.layer = name;
  request.expected_diff_id = expected_diff_id;
  request.max_unpacked_bytes = limits_.max_unpacked_bytes;
  request.max_entries = limits_.max_entries;
  if (parents) request.parents = *parents;
  request.above_others = !parents || !parents->empty();
  runtime::Unpacked unpacked = expect<runtime::Unpacked>(ask(broker_, request, {input.get()}));
  using State = Unpacked::State;
  return {unpacked.needs_parents ? State::needs_parents : State::whole, std::move(unpacked.diff_id),
          unpacked.unpacked_bytes, unpacked.entries, unpacked.hides_below};
}

void BrokerLayers::remove(const std::vector<std::string>& names) {
  for (std::size_t begin = 0; begin < names.size(); begin += names_per_message) {
    const std::size_t end = std::min(names.size(), begin + names_per_message);
    runtime::RemoveLayers request;
    request.layers.assign(names.begin() + static_cast<std::ptrdiff_t>(begin),
                          names.begin() + static_cast<std::ptrdiff_t>(end));
    expect<runtime::Done>(ask(broker_, request));
  }
}

std::vector<std::string> BrokerLayers::list() {
  return expect<runtime::Layers>(ask(broker_, runtime::ListLayers{})).layers;
}

std::string BrokerLayers::credential(const std::string& helper, const std::string& server) {
  runtime::Reply reply = ask(broker_, runtime::RunCredentialHelper{helper, server});
  if (const auto* failed = std::get_if<runtime::Failed>(&reply.answer)) {
    throw images::ImageError(images::ImageFailure::denied, failed->message);
  }
  return expect<runtime::Credential>(std::move(reply)).output;
}

}  // namespace daiv::cli
