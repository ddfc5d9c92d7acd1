#include "cli/line_budget.hpp"

#include <algorithm>
#include <utility>

namespace daiv::cli {

void LineBudget::Account::refill(TimePoint now) {
  const std::chrono::duration<double> passed = now - seen;
  lines = std::min(burst, lines + passed.count() * lines_per_second);
  seen = now;
}

LineBudget::Verdict LineBudget::spend(const std::string& subject, TimePoint now) {
  if (accounts_.size() > kept_subjects) forget_full_accounts(now);
  Account& account = accounts_.try_emplace(subject, Account{.seen = now}).first->second;
  account.refill(now);
  if (account.lines < 1) return {.is_first_left_out = account.left_out++ == 0};
  account.lines -= 1;
  return {.is_written = true, .left_out = std::exchange(account.left_out, 0)};
}

// A full one is as good as none, but for what it still has to tell.
void LineBudget::forget_full_accounts(TimePoint now) {
  for (auto& [subject, account] : accounts_) account.refill(now);
  std::erase_if(accounts_, [](const auto& entry) { return entry.second.lines >= burst; });
}

}  // namespace daiv::cli
