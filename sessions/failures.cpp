#include "sessions/failures.hpp"

#include <cerrno>
#include <string>

#include "images/image_service.hpp"
#include "os/error.hpp"
#include "runtime/broker_client.hpp"
#include "sessions/agent_client.hpp"
#include "sessions/sandbox_host.hpp"

namespace daiv::sessions {
namespace {

[[noreturn]] void rethrow(const images::ImageError& error) {
  switch (error.failure()) {
    case images::ImageFailure::invalid_reference:
    case images::ImageFailure::not_found:
    case images::ImageFailure::denied:
    case images::ImageFailure::wrong_platform:
    case images::ImageFailure::invalid_image:
    case images::ImageFailure::blocked:
      throw SessionError(SessionFailure::bad_request, error.what());
    case images::ImageFailure::unreachable:
    case images::ImageFailure::rate_limited:
    case images::ImageFailure::no_space:
    case images::ImageFailure::cancelled:
      throw SessionError(SessionFailure::unavailable, error.what());
    case images::ImageFailure::internal:
      break;
  }
  throw error;
}

[[noreturn]] void rethrow(const HostError& error) {
  switch (error.kind()) {
    case runtime::Failure::invalid:
      throw SessionError(SessionFailure::bad_request, error.what());
    case runtime::Failure::unsupported:
    case runtime::Failure::no_space:
    case runtime::Failure::range_taken:
      throw SessionError(SessionFailure::unavailable, error.what());
    case runtime::Failure::internal:
    case runtime::Failure::not_found:
    case runtime::Failure::corrupt_layer:
      break;
  }
  throw error;
}

[[noreturn]] void rethrow(const AgentError& error) {
  switch (error.fault()) {
    case AgentFault::gone:
      throw SessionError(
          SessionFailure::unavailable,
          "the sandbox ended during the operation; the next request starts it again");
    case AgentFault::stalled:
      throw SessionError(SessionFailure::unavailable, "the sandbox did not answer in time");
    case AgentFault::malformed:
    case AgentFault::refused:
      break;
  }
  throw error;
}

[[noreturn]] void rethrow(const runtime::BrokerGone&) {
  throw SessionError(SessionFailure::unavailable,
                     "the daemon lost the part that makes sandboxes and starts again: this request "
                     "may have been carried out or not");
}

[[noreturn]] void rethrow(const os::Error& error) {
  if (error.error_number() == ENOSPC || error.error_number() == EDQUOT) {
    throw SessionError(SessionFailure::unavailable,
                       "no space is left on the host for this operation");
  }
  throw error;
}

}  // namespace

void rethrow_for_client(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const images::ImageError& error) {
    rethrow(error);
  } catch (const HostError& error) {
    rethrow(error);
  } catch (const AgentError& error) {
    rethrow(error);
  } catch (const runtime::BrokerGone& error) {
    rethrow(error);
  } catch (const os::Error& error) {
    rethrow(error);
  }
}

}  // namespace daiv::sessions
