#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "images/unpack/layer_unpacker.hpp"
#include "os/unique_fd.hpp"

// Starts the real unpack program as the broker does, for tests: in user, mount, pid, net and ipc
// namespaces of its own, as root of a range of host ids.
namespace daiv::test {

inline constexpr std::uint32_t storage_uid_base = 1'879'048'192;

class UnpackProcess {
public:
  // `layer`: an empty directory, whose owner becomes storage_uid_base. The program's path is in
  // DAIV_UNPACK_PROGRAM.
  // `none` starts it in the test's own namespaces, which it has to refuse.
  enum class Namespaces : std::uint8_t { own, none };
  // `parents`: the root of a detached mount, where the layer may link to what lies below it;
  // `above_others`: something does, given or not.
  UnpackProcess(const os::UniqueFd& input, const os::UniqueFd& layer,
                images::unpack::Limits limits = {}, Namespaces namespaces = Namespaces::own,
                const os::UniqueFd& parents = {}, bool above_others = false);
  ~UnpackProcess();
  UnpackProcess(const UnpackProcess&) = delete;
  UnpackProcess& operator=(const UnpackProcess&) = delete;

  // Kills it wherever it is.
  void kill();
  // Waits for its end. Where no record came, the status is internal and the message "no record".
  images::unpack::Result wait();

private:
  void write_maps() const;

  pid_t pid_ = -1;
  os::UniqueFd result_;
};

}  // namespace daiv::test
