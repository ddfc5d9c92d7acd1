#pragma once

#include <string>

#include "images/http_transfer.hpp"
#include "images/image_service.hpp"
#include "images/registries_conf.hpp"

namespace daiv::images {

// What a failed request to a registry says about who asked for it.
struct RequestContext {
  std::string image;  // in full form
  bool used_credentials = false;
  std::string note;  // one more sentence for a refusal; may be empty
};

// The error for a request that ended as `result`, which is not a success: kind, and a text without
// any foreign bytes. Docker Hub and others answer 401 for what does not exist, lest anybody learn
// names of private images.
ImageError registry_error(const PullSource& source, const HttpResult& result,
                          const RequestContext& context);

}  // namespace daiv::images
