#pragma once

#include <string>

#include "images/file_lock.hpp"
#include "images/image_database.hpp"
#include "images/image_service.hpp"

namespace daiv::images {

// Makes records and directories agree again after a crash, and returns the lock that tells others
// of this process. Only who is alone on the state directory does it: another's layers may be
// complete and not yet recorded.
// - directories that no record names are removed: they were being made or being removed;
// - records whose directory is gone, or that a power cut made doubtful, are forgotten with the
// images over them;
// - lock files and temporary files of dead processes go.
// Throws os::Error, or what the backend throws.
FileLock recover_store(const std::string& state_dir, ImageDatabase& database,
                       LayerBackend& backend);

}  // namespace daiv::images
