#pragma once

#include "images/image_service.hpp"
#include "runtime/broker_client.hpp"

namespace daiv::cli {

// Bounds of what one layer may unpack to.
struct LayerLimits {
  std::uint64_t max_unpacked_bytes = 64ULL << 30;
  std::uint64_t max_entries = 10'000'000;
};

// The broker as the place where layers become directories.
class BrokerLayers : public images::LayerBackend {
public:
  BrokerLayers(runtime::BrokerClient& broker, LayerLimits limits)
      : broker_(broker), limits_(limits) {}

  Unpacked unpack(const std::string& name, const std::string& expected_diff_id,
                  const os::UniqueFd& input, const Parents& parents) override;
  void remove(const std::vector<std::string>& names) override;
  std::vector<std::string> list() override;
  std::string credential(const std::string& helper, const std::string& server) override;

private:
  runtime::BrokerClient& broker_;
  LayerLimits limits_;
};

}  // namespace daiv::cli
