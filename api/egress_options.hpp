#pragma once

#include "api/json_value.hpp"
#include "sessions/egress_policy.hpp"

namespace daiv::api {

// The policy of a request's egress block, which egress_model() has passed.
sessions::EgressPolicy egress_policy(const Json& block);

}  // namespace daiv::api
