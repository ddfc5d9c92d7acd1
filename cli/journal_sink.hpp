#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace spdlog::sinks {
class sink;
}

namespace daiv::cli {

// Whether descriptor `fd` is the journal's stream that systemd names in JOURNAL_STREAM as
// "device:inode" (systemd.exec(5)). False for an empty name.
bool is_journal_stream(std::string_view journal_stream, int fd);

// The fields that a log line of the form "key=value key="a value" …" has of those that are worth
// searching for: DAIV_REQUEST, DAIV_SESSION, DAIV_METHOD, DAIV_ROUTE, DAIV_STATUS,
// DAIV_DURATION_MS, DAIV_EVENT. Reading ends at the first word that is none, or that tells an
// error: what comes from others makes no fields.
std::string journal_fields(std::string_view line);

// Sends each line as one entry to journald's socket (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/):
// MESSAGE, PRIORITY, SYSLOG_IDENTIFIER and the fields above. Lines that can't be delivered there go
// to standard error, with the prefix of sd-daemon(3).
std::shared_ptr<spdlog::sinks::sink> make_journal_sink(
    const std::string& socket_path = "/run/systemd/journal/socket");

}  // namespace daiv::cli
