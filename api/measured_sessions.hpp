#pragma once

#include "api/operation_metrics.hpp"
#include "sessions/session_service.hpp"

namespace daiv::api {

// Passes everything on to another service and records how it went. Both outlive it.
class MeasuredSessions final : public sessions::SessionService {
public:
  MeasuredSessions(sessions::SessionService& service, OperationMetrics& metrics)
      : service_(service), metrics_(metrics) {}

  boost::asio::awaitable<std::string> create(sessions::CreateOptions options) override;
  boost::asio::awaitable<bool> touch(std::string id) override;
  boost::asio::awaitable<std::vector<sessions::CommandResult>> run(
      std::string id, sessions::RunOptions options) override;
  boost::asio::awaitable<std::unique_ptr<sessions::SeedSink>> begin_seed(std::string id) override;
  boost::asio::awaitable<std::string> fs(std::string id, std::string request) override;
  boost::asio::awaitable<void> close(std::string id, sessions::CloseMode mode) override;
  [[nodiscard]] bool offers_egress() const override { return service_.offers_egress(); }
  boost::asio::awaitable<sessions::EgressUpdate> update_egress(
      std::string id, sessions::EgressPolicy policy) override;
  [[nodiscard]] bool exists(const std::string& id) const override { return service_.exists(id); }
  [[nodiscard]] Counts counts() const override { return service_.counts(); }

private:
  class Seed;

  sessions::SessionService& service_;
  OperationMetrics& metrics_;
};

}  // namespace daiv::api
