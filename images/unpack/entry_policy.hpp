#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

// What a member of a layer's tar may ask for. Pure: bytes in, verdict out (OCI image spec,
// layer.md).
namespace daiv::images::unpack {

inline constexpr std::size_t max_path_bytes = 4095;      // PATH_MAX without its NUL
inline constexpr std::size_t max_component_bytes = 255;  // NAME_MAX
inline constexpr std::int64_t max_owner_id = 65'535;     // what the storage range maps

// A place in the layer: relative, without empty, "." and ".." components. Both parts are empty for
// the root itself.
struct EntryPath {
  std::string parent;
  std::string name;

  [[nodiscard]] bool is_root() const noexcept { return name.empty(); }
  [[nodiscard]] std::string string() const { return parent.empty() ? name : parent + "/" + name; }
  friend bool operator==(const EntryPath&, const EntryPath&) = default;
};

// Reads the name of an entry or the target of a hard link: a leading "/" means the layer's root,
// ".." takes a component back. The error says why it cannot be a place in the layer: it leaves the
// root, is too long or has a NUL.
std::expected<EntryPath, std::string> plan_entry_path(std::string_view raw);

// The components of `path`, with ".." but without empty ones and ".".
std::vector<std::string_view> split_path(std::string_view path);

// "a/b" for "a" and "b", "b" for "" and "b".
std::string join_path(std::string_view parent, std::string_view name);

// Whether an owner can be kept: 0 to max_owner_id.
[[nodiscard]] bool is_valid_owner(std::int64_t id) noexcept;

// Whether an extended attribute of an entry is set: user.* but overlayfs' own, security.capability
// and POSIX ACLs. Others mean something to the host that an image must not decide
// (trusted.overlay.*, security.selinux, …).
[[nodiscard]] bool keeps_xattr(std::string_view name) noexcept;

}  // namespace daiv::images::unpack
