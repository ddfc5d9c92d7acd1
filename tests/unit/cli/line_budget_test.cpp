#include "cli/line_budget.hpp"

#include <gtest/gtest.h>

namespace daiv::cli {
namespace {

using std::chrono::seconds;

constexpr auto burst = static_cast<int>(LineBudget::burst);
constexpr auto rate = static_cast<int>(LineBudget::lines_per_second);
const LineBudget::TimePoint start{seconds(1'000)};

int count_written(LineBudget& budget, const std::string& subject, int lines,
                  LineBudget::TimePoint now) {
  int written = 0;
  for (int i = 0; i < lines; ++i) written += budget.spend(subject, now).is_written ? 1 : 0;
  return written;
}

TEST(LineBudget, WritesABurstWholeAndThenLittle) {
  LineBudget budget;
  EXPECT_EQ(count_written(budget, "a", burst + 500, start), burst);
  EXPECT_EQ(count_written(budget, "a", 500, start + seconds(3)), 3 * rate);
}

TEST(LineBudget, OneSubjectTakesNothingFromAnother) {
  LineBudget budget;
  count_written(budget, "a", 10 * burst, start);
  EXPECT_EQ(count_written(budget, "b", burst, start), burst);
}

TEST(LineBudget, TellsOnceThatLinesAreLeftOutAndThenHowMany) {
  LineBudget budget;
  count_written(budget, "a", burst, start);
  EXPECT_TRUE(budget.spend("a", start).is_first_left_out);
  EXPECT_FALSE(budget.spend("a", start).is_first_left_out);
  EXPECT_EQ(budget.spend("a", start + seconds(1)).left_out, 2U);
  EXPECT_EQ(budget.spend("a", start + seconds(1)).left_out, 0U);
}

TEST(LineBudget, FillsUpAgainToABurstAndNoMore) {
  LineBudget budget;
  count_written(budget, "a", 2 * burst, start);
  EXPECT_EQ(count_written(budget, "a", 2 * burst, start + seconds(100'000)), burst);
}

TEST(LineBudget, ManySubjectsDoNotMakeItForgetOneThatHasSpent) {
  LineBudget budget;
  count_written(budget, "a", 2 * burst, start);
  for (int i = 0; i < 5'000; ++i) budget.spend("other" + std::to_string(i), start);
  EXPECT_FALSE(budget.spend("a", start).is_written);
}

}  // namespace
}  // namespace daiv::cli
