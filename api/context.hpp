#pragma once

#include <boost/asio/thread_pool.hpp>

#include "api/body_budget.hpp"
#include "api/extensions.hpp"
#include "api/metrics.hpp"
#include "api/operation_metrics.hpp"
#include "api/settings.hpp"
#include "sessions/session_service.hpp"

namespace daiv::api {

// What every request handler works with; borrowed from the Server.
struct Context {
  const ServerSettings& settings;
  sessions::SessionService& service;
  boost::asio::thread_pool& pool;  // for work that would hold up the io thread
  boost::asio::thread_pool&
      large_bodies;  // the same, of those that would hold up the pool's others
  Metrics& metrics;
  const OperationMetrics& operations;
  const Extensions& extensions;
  BodyBudget& bodies;
};

}  // namespace daiv::api
