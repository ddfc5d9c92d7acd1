#pragma once

#include <string>
#include <vector>

#include "os/unique_fd.hpp"
#include "runtime/broker_options.hpp"
#include "runtime/broker_protocol.hpp"

namespace daiv::runtime {

// <state>/layers: one directory per unpacked layer, ids shifted into the storage range.
// `.tmp-<name>` is being unpacked,
// `.pending-<name>` says that a layer may not be on the disk yet, and in which boot it was written:
// after a power cut such a layer is not trusted (syncfs(2) runs later, in the background, so that
// no pull waits for the disk).
class LayerStore {
public:
  // Makes the directories that are missing. Throws os::Error.
  explicit LayerStore(const BrokerOptions& options);

  [[nodiscard]] const os::UniqueFd& directory() const noexcept { return layers_; }

  // Runs the unpacker on `input` and takes in what it made. Nothing of a failed layer stays.
  Answer unpack(const UnpackLayer& request, const os::UniqueFd& input);
  void remove(const std::vector<std::string>& layers);
  [[nodiscard]] std::vector<std::string> list() const;
  // The first of these that does not exist; empty where all do.
  [[nodiscard]] std::string find_missing(const std::vector<std::string>& layers) const;

  // Throws away what an earlier broker left half done and what a power cut may have spoiled.
  void recover();
  // Writes pending layers to the disk and takes their marks away.
  void flush();
  [[nodiscard]] const os::UniqueFd& trash() const noexcept { return trash_; }

private:
  Answer take_in(const UnpackLayer& request, const std::string& temporary, std::string_view result);

  UidRanges ranges_;
  std::string program_;
  os::UniqueFd layers_;
  os::UniqueFd trash_;
};

// What daiv-sandbox-unpack writes as its one record, as an answer. Pure. Throws wire::DecodeError.
Answer parse_unpack_result(std::string_view bytes);

}  // namespace daiv::runtime
