#include "images/registry_error.hpp"

#include <fmt/core.h>

namespace daiv::images {
namespace {

ImageError refused(const PullSource& source, const RequestContext& context) {
  const std::string note = context.note.empty() ? "" : "; " + context.note;
  if (context.used_credentials) {
    return {ImageFailure::denied, fmt::format("{}: registry {} refused access with the configured "
                                              "credentials: they are wrong, lack permission, "
                                              "or the image does not exist{}",
                                              context.image, source.authority, note)};
  }
  return {ImageFailure::not_found,
          fmt::format("{}: registry {} knows no such image, or it needs credentials{}",
                      context.image, source.authority, note)};
}

ImageError from_status(const PullSource& source, int status, const RequestContext& context) {
  const auto& [image, used_credentials, note] = context;
  if (status == 401) return refused(source, context);
  if (status == 403) {
    return {
        ImageFailure::denied,
        fmt::format("{}: registry {} denies access{}{}", image, source.authority,
                    used_credentials ? " with the configured credentials" : " without credentials",
                    note.empty() ? "" : "; " + note)};
  }
  if (status == 404) {
    return {ImageFailure::not_found,
            fmt::format("{}: not found in registry {}", image, source.authority)};
  }
  if (status == 429) {
    return {
        ImageFailure::rate_limited,
        fmt::format(
            "{}: registry {} limits the rate of pulls: try again later, or configure credentials",
            image, source.authority)};
  }
  if (status >= 500) {
    return {ImageFailure::unreachable,
            fmt::format("{}: registry {} answers with status {}", image, source.authority, status)};
  }
  return {ImageFailure::internal, fmt::format("{}: registry {} answers with unexpected status {}",
                                              image, source.authority, status)};
}

}  // namespace

ImageError registry_error(const PullSource& source, const HttpResult& result,
                          const RequestContext& context) {
  switch (result.end) {
    case TransferEnd::cancelled:
      return {ImageFailure::cancelled, fmt::format("{}: cancelled", context.image)};
    case TransferEnd::complete:
    case TransferEnd::stopped:
      return from_status(source, result.head.status, context);
    case TransferEnd::not_resolved:
    case TransferEnd::not_connected:
    case TransferEnd::no_tls:
    case TransferEnd::certificate_refused:
    case TransferEnd::cut:
    case TransferEnd::stalled:
    case TransferEnd::malformed:
      break;
  }
  return {ImageFailure::unreachable,
          fmt::format("{}: registry {} can't be reached: {}", context.image, source.authority,
                      describe(result.end))};
}

}  // namespace daiv::images
