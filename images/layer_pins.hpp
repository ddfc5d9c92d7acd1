#pragma once

#include <memory>
#include <string>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::images {

// Says which layers are spoken for: handed out in an Image, and not yet recorded by whoever asked.
// A pin is a shared lock on one byte of a file, the layer's name as a number (fcntl(2), open file
// description locks), so all processes on the state directory see it, and the kernel drops it when
// its process dies. Thread-safe. Throws os::Error.
class LayerPins {
public:
  // The file is made where missing; it stays empty.
  explicit LayerPins(std::string path);

  // Pins `names` until the result and all its copies are gone (an Image's copies share it); it may
  // outlive this object. Waits for a claim on one of them, so look again afterwards whether the
  // layers still exist.
  std::shared_ptr<const void> hold(const std::vector<std::string>& names);

  // What nobody had pinned, and nobody can pin while this lives.
  class Claim {
  public:
    [[nodiscard]] const std::vector<std::string>& pinned() const noexcept { return pinned_; }

  private:
    friend class LayerPins;
    os::UniqueFd file_;
    std::vector<std::string> pinned_;
  };
  // Claims those of `names` that no pin holds, of this process or another; pinned() has the rest.
  Claim claim(const std::vector<std::string>& names);

private:
  struct Held;
  std::string path_;
  std::shared_ptr<Held> held_;  // shared with the pins, which let go by it
};

}  // namespace daiv::images
