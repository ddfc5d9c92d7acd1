#pragma once

#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "images/registry_client.hpp"
#include "images/registry_request.hpp"

namespace daiv::images {

// One blob and where its bytes go.
struct BlobOrder {
  const std::string& image;  // in full form, for errors
  const Descriptor& blob;
  BlobSink& sink;
  const RegistryClient::Progress& progress;  // may be empty
};

// Downloads a blob from the first of `sources` that has it, resuming what breaks, over to the next
// source as well. Throws ImageError as RegistryClient::fetch_blob() does, and what the sink throws.
void fetch_blob(RegistryRequester& requester, const RegistrySettings& settings,
                std::span<const PullSource> sources, const BlobOrder& order,
                const std::stop_token& stop);

}  // namespace daiv::images
