#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "images/unpack/layer_unpacker.hpp"
#include "os/unique_fd.hpp"

namespace daiv::test {

// A temporary directory, removed with all in it.
class TempDir {
public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
  std::string path_;
};

// A layer that the real program unpacked into a directory of its own.
class UnpackedLayer {
public:
  explicit UnpackedLayer(std::string_view bytes, images::unpack::Limits limits = {});

  images::unpack::Result result;
  [[nodiscard]] const std::string& path() const noexcept { return root_; }
  // lstat(2) below the layer; owners without the storage range's base. Empty where there is
  // nothing.
  [[nodiscard]] std::optional<struct stat> stat(const std::string& name) const;
  [[nodiscard]] bool exists(const std::string& name) const { return stat(name).has_value(); }
  [[nodiscard]] std::string content(const std::string& name) const;
  [[nodiscard]] std::string link(const std::string& name) const;
  [[nodiscard]] std::string xattr(const std::string& name, const char* attribute) const;
  [[nodiscard]] bool is_whiteout(const std::string& name) const;
  [[nodiscard]] bool is_opaque(const std::string& name) const {
    return xattr(name, "user.overlay.opaque") == "y";
  }

private:
  TempDir dir_;
  std::string root_;
};

}  // namespace daiv::test
