#pragma once

#include <chrono>
#include <string>

#include "os/unique_fd.hpp"

namespace daiv::runtime {

// Takes <directory>/broker.lock, of the state or runtime directory, for this broker and every
// operation it forks: it is free again when the last of them has ended (flock(2): a lock belongs to
// the open file, which children share). After a broker was killed, its operations still go on; what
// they leave is looked at once they are done. Waits for them up to `limit`; throws
// os::Error{ETIMEDOUT} then.
os::UniqueFd lock_out_earlier_brokers(const std::string& directory,
                                      std::chrono::milliseconds limit);

}  // namespace daiv::runtime
