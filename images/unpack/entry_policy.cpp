#include "images/unpack/entry_policy.hpp"

#include <cstddef>

namespace daiv::images::unpack {

std::vector<std::string_view> split_path(std::string_view path) {
  std::vector<std::string_view> components;
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    const std::string_view component = path.substr(0, end);
    if (!component.empty() && component != ".") components.push_back(component);
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  return components;
}

std::string join_path(std::string_view parent, std::string_view name) {
  std::string path(parent);
  if (!path.empty()) path += '/';
  path += name;
  return path;
}

std::expected<EntryPath, std::string> plan_entry_path(std::string_view raw) {
  if (raw.find('\0') != std::string_view::npos) return std::unexpected("its name has a NUL byte");
  std::vector<std::string_view> kept;
  for (const std::string_view component : split_path(raw)) {
    if (component.size() > max_component_bytes) {
      return std::unexpected("a part of its name is longer than 255 bytes");
    }
    if (component != "..") {
      kept.push_back(component);
    } else if (kept.empty()) {
      return std::unexpected("its name leads out of the layer");
    } else {
      kept.pop_back();
    }
  }
  EntryPath path;
  if (kept.empty()) return path;
  path.name = kept.back();
  kept.pop_back();
  for (const std::string_view component : kept) {
    if (!path.parent.empty()) path.parent += '/';
    path.parent += component;
  }
  if (path.parent.size() + 1 + path.name.size() > max_path_bytes) {
    return std::unexpected("its name is longer than 4095 bytes");
  }
  return path;
}

bool is_valid_owner(std::int64_t id) noexcept { return id >= 0 && id <= max_owner_id; }

bool keeps_xattr(std::string_view name) noexcept {
  if (name.find('\0') != std::string_view::npos) return false;
  // overlayfs with userxattr takes user.overlay.* as its own marks (overlayfs.rst, "User xattr").
  if (name.starts_with("user.overlay.")) return false;
  return (name.starts_with("user.") && name.size() > 5) || name == "security.capability" ||
         name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

}  // namespace daiv::images::unpack
