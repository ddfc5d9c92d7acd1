#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fake_layer_backend.hpp"
#include "images/image_service.hpp"
#include "unpacked_layer.hpp"

namespace daiv::test {

// An image store in a directory of the test, with the real unpack program behind it.
class StoreTest : public ::testing::Test {
protected:
  StoreTest();

  [[nodiscard]] images::ImageSettings settings() const;
  // Made at the first call.
  images::ImageService& service();
  std::vector<images::Image> load(const std::string& archive);
  images::ImageError load_error(const std::string& archive);
  // Prunes with no session anywhere.
  images::ImageService::PruneReport prune(images::ImageService::PruneScope scope);
  [[nodiscard]] std::string content(const images::Image& image, std::size_t layer,
                                    const std::string& name) const;

  TempDir dir_;
  FakeLayerBackend backend_{dir_.path() + "/layers"};
  std::unique_ptr<images::ImageService> service_;
};

}  // namespace daiv::test
