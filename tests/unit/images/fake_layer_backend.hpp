#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "images/image_service.hpp"

namespace daiv::test {

// The broker's part in a directory of the test: layers are unpacked by the real program, beside
// their place, and moved there when they are whole. Thread-safe.
class FakeLayerBackend final : public images::LayerBackend {
public:
  explicit FakeLayerBackend(std::string dir);

  Unpacked unpack(const std::string& name, const std::string& expected_diff_id,
                  const os::UniqueFd& input, const Parents& parents) override;
  void remove(const std::vector<std::string>& names) override;
  std::vector<std::string> list() override;
  std::string credential(const std::string& helper, const std::string& server) override;

  [[nodiscard]] std::string path(const std::string& name) const { return dir_ + "/" + name; }
  [[nodiscard]] int unpacks() const { return unpacks_; }
  // The next unpacker is killed when it has begun.
  void kill_next() { kill_next_ = true; }

private:
  [[nodiscard]] os::UniqueFd open_parents(const std::vector<std::string>& parents) const;

  std::string dir_;
  std::atomic<int> unpacks_ = 0;
  std::atomic<bool> kill_next_ = false;
};

}  // namespace daiv::test
