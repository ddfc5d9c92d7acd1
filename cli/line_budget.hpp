#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace daiv::cli {

// How many lines one subject may put into the log. journald takes 10,000 lines of a unit in 30
// seconds and then drops all that follow (journald.conf(5), RateLimitBurst=): without a bound of
// its own one sandbox could so hide what the others do. A burst, and a slow rate behind it.
class LineBudget {
public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr double burst = 2'000;
  static constexpr double lines_per_second = 20;

  struct Verdict {
    bool is_written = false;
    bool is_first_left_out = false;  // of a row: worth a line that says so
    std::uint64_t left_out = 0;      // since the last line that was written
  };

  // One line of `subject`, at `now`. Not for several threads at once.
  Verdict spend(const std::string& subject, TimePoint now);

private:
  static constexpr std::size_t kept_subjects = 1'024;

  struct Account {
    double lines = burst;
    TimePoint seen;
    std::uint64_t left_out = 0;

    void refill(TimePoint now);
  };

  void forget_full_accounts(TimePoint now);

  std::map<std::string, Account> accounts_;
};

}  // namespace daiv::cli
