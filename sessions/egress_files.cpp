#include "sessions/egress_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "os/crash_point.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "wire/codec.hpp"

namespace daiv::sessions {
namespace {

constexpr std::size_t max_policy_bytes = 16U << 20;
constexpr std::string_view unfinished = ".new";

}  // namespace

void EgressFiles::save(const std::string& session, const EgressPolicy& policy,
                       std::uint64_t version) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t& saved = versions_[session];
  if (version < saved) return;
  const std::string path = directory_ + "/" + session;
  const std::string next = path + std::string(unfinished);
  os::write_full(os::open_file(next, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600),
                 encode(policy));
  os::crash_point("front.egress.unfinished");
  os::check(std::rename(next.c_str(), path.c_str()), "rename", path);
  os::crash_point("front.egress.saved");
  saved = version;
}

std::optional<EgressPolicy> EgressFiles::find(const std::string& session) const {
  try {
    return decode_egress_policy(os::read_file(directory_ + "/" + session, max_policy_bytes));
  } catch (const os::Error& error) {
    if (error.error_number() != ENOENT && error.error_number() != ENOTDIR) throw;
  } catch (const wire::DecodeError&) {  // of another version, or cut: as if it were lost
  }
  return std::nullopt;
}

void EgressFiles::remove(const std::string& session) {
  const std::scoped_lock lock(mutex_);
  versions_.erase(session);
  const std::string path = directory_ + "/" + session;
  if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
    os::throw_errno("unlink", path);
}

void EgressFiles::discard_unfinished() {
  const std::scoped_lock lock(mutex_);
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, none))
    if (entry.path().filename().string().ends_with(unfinished)) ::unlink(entry.path().c_str());
}

std::vector<std::string> EgressFiles::list() const {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, none)) {
    std::string name = entry.path().filename();
    if (!name.ends_with(unfinished)) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace daiv::sessions
