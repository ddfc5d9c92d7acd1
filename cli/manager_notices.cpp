#include "cli/manager_notices.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <ctime>

#include "os/error.hpp"

namespace daiv::cli {
namespace {

// What is only good to know must not end the daemon.
void try_notify(const std::string& state) {
  try {
    os::notify_manager(state);
  } catch (const os::Error& error) {
    spdlog::warn("event=manager_not_told error=\"{}\"", error.what());
  }
}

std::uint64_t monotonic_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

}  // namespace

ManagerNotices::ManagerNotices(boost::asio::io_context& io) : timer_(io) {}

void ManagerNotices::ready(const std::string& status) {
  os::notify_manager(fmt::format("READY=1\nSTATUS={}", status));
  feed_watchdog();
}

// MONOTONIC_USEC is what Type=notify-reload asks for (systemd 253).
void ManagerNotices::reloading() {
  try_notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
}

void ManagerNotices::reloaded() { try_notify("READY=1"); }

void ManagerNotices::stopping(const std::string& status) {
  try_notify(fmt::format("STOPPING=1\nSTATUS={}", status));
}

void ManagerNotices::close() { timer_.cancel(); }

void ManagerNotices::feed_watchdog() {
  timer_.expires_after(watchdog_.feed());
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) feed_watchdog();
  });
}

}  // namespace daiv::cli
