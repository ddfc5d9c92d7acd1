#include "images/unpack/whiteout.hpp"

#include <string_view>

namespace daiv::images::unpack {

namespace {

constexpr std::string_view prefix = ".wh.";
constexpr std::string_view meta_prefix = ".wh..wh.";
constexpr std::string_view opaque_name = ".wh..wh..opq";

bool is_aufs_bookkeeping(std::string_view name) {
  return name == ".wh..wh.aufs" || name == ".wh..wh.plnk" || name == ".wh..wh.orph";
}

}  // namespace

std::expected<Whiteout, std::string> classify_whiteout(const EntryPath& path) {
  const auto invalid = [] { return std::unexpected<std::string>("invalid whiteout"); };
  const auto parents = split_path(path.parent);
  if (!parents.empty() && is_aufs_bookkeeping(parents.front()))
    return Whiteout{WhiteoutKind::ignored, {}};
  for (const std::string_view component : parents) {
    if (component.starts_with(prefix)) return invalid();
  }
  const std::string_view name = path.name;
  if (!name.starts_with(prefix)) return Whiteout{};
  if (name == opaque_name) return Whiteout{WhiteoutKind::opaque, {}};
  if (path.parent.empty() && is_aufs_bookkeeping(name)) return Whiteout{WhiteoutKind::ignored, {}};
  if (name.starts_with(meta_prefix)) return invalid();
  const std::string_view target = name.substr(prefix.size());
  if (target.empty() || target == "." || target == "..") return invalid();
  return Whiteout{WhiteoutKind::removes, std::string(target)};
}

}  // namespace daiv::images::unpack
