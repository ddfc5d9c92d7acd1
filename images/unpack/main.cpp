#include <charconv>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>

#include "images/unpack/confine.hpp"
#include "images/unpack/layer_unpacker.hpp"
#include "os/io.hpp"
#include "os/unique_fd.hpp"

// daiv-sandbox-unpack: unpacks one layer. The broker starts it as root of a user namespace over the
// storage range, in mount, pid, net and ipc namespaces of its own.
//   fd 3  read end of a pipe: the layer's bytes, compressed or not
//   fd 4  write end of a pipe: gets the result record (layer_unpacker.hpp)
//   fd 5  the layer's directory, empty
//   fd 6  with --parents: the layers below it as one tree, the root of a detached read-only mount
// Arguments: --max-bytes=N --max-entries=N, 0 or left out: none; --parents; --above-others: there
// are layers below it, given or not. Exit status 0 if and only if the record was written.

namespace {

using namespace daiv;
using namespace daiv::images::unpack;

constexpr int parents_descriptor = 6;

bool read_limit(std::string_view argument, std::string_view name, std::uint64_t& limit) {
  if (!argument.starts_with(name)) return false;
  argument.remove_prefix(name.size());
  const auto [end, error] =
      std::from_chars(argument.data(), argument.data() + argument.size(), limit);
  return error == std::errc{} && end == argument.data() + argument.size();
}

struct Options {
  Limits limits;
  bool has_parents = false;
  bool above_others = false;
};

bool read_arguments(std::span<char*> arguments, Options& options) {
  Limits& limits = options.limits;
  for (const std::string_view argument : arguments) {
    if (argument == "--parents") {
      options.has_parents = true;
    } else if (argument == "--above-others") {
      options.above_others = true;
    } else if (!read_limit(argument, "--max-bytes=", limits.max_bytes) &&
               !read_limit(argument, "--max-entries=", limits.max_entries)) {
      return false;
    }
  }
  return true;
}

Result failed(std::string_view message) {
  Result result;
  result.message = message;
  return result;
}

Result unpack(std::span<char*> arguments, const os::UniqueFd& input, const os::UniqueFd& result,
              const os::UniqueFd& layer) {
  Options options;
  if (!read_arguments(arguments, options)) return failed("unknown argument");
  try {
    const os::UniqueFd parents(options.has_parents ? parents_descriptor : -1);
    LayerUnpacker unpacker;
    confine(input, result, layer, parents);
    return unpacker.run(input, {layer, parents, options.above_others}, options.limits);
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const os::UniqueFd input(3);
  const os::UniqueFd result(4);
  const os::UniqueFd layer(5);
  try {
    const auto arguments =
        std::span(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0);
    os::write_full(result, encode(unpack(arguments, input, result, layer)));
  } catch (const std::exception&) {
    return 1;  // the broker takes a missing record for a failure, and has no use for a text
  }
  return 0;
}
