#pragma once

#include "api/settings.hpp"
#include "cli/front.hpp"
#include "cli/settings.hpp"
#include "images/image_service.hpp"
#include "os/unique_fd.hpp"
#include "sessions/native_sessions.hpp"

// The daemon's settings as each part of the front takes them.
namespace daiv::cli {

images::ImageSettings plan_image_settings(const Settings& settings,
                                          const os::UniqueFd& registry_auth);
sessions::SessionSettings plan_session_settings(const Settings& settings);
// Takes the listeners out of `parts`, whose other descriptors must stay open.
api::ServerSettings plan_server_settings(const Settings& settings, ApiParts& parts);

}  // namespace daiv::cli
