#pragma once

#include <memory>

#include "sentry/client.hpp"

namespace spdlog::sinks {
class sink;
}

namespace daiv::sentry {

// A sink that hands log lines to `client`, which must outlive it.
std::shared_ptr<spdlog::sinks::sink> make_log_sink(Client& client);

}  // namespace daiv::sentry
