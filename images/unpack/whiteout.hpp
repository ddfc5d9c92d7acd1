#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "images/unpack/entry_policy.hpp"

namespace daiv::images::unpack {

enum class WhiteoutKind : std::uint8_t {
  none,     // an entry like any other
  removes,  // ".wh.<name>": hides <name> of the layers below
  opaque,   // ".wh..wh..opq": hides all that the layers below have in its directory
  ignored,  // bookkeeping of aufs, which only old Docker wrote
};

struct Whiteout {
  WhiteoutKind kind = WhiteoutKind::none;
  std::string target;  // of `removes`: the hidden name, one component

  friend bool operator==(const Whiteout&, const Whiteout&) = default;
};

// What the name of an entry says of the layers below (OCI image spec, layer.md, "Whiteouts"). A
// whiteout of "", "." or
// "..", or one that other entries lie under, is the error "invalid whiteout": taken at its word, it
// would hide a whole directory. `path` as plan_entry_path() gives it.
std::expected<Whiteout, std::string> classify_whiteout(const EntryPath& path);

}  // namespace daiv::images::unpack
