#include "runtime/processors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <charconv>

#include "os/error.hpp"

namespace daiv::runtime {
namespace {

constexpr std::size_t millis_per_processor = 1000;
// More than any kernel has (CONFIG_NR_CPUS), so that a range can't ask for all memory.
constexpr unsigned max_processor = 1U << 16;

// Takes a number off the front of the text.
std::optional<unsigned> take_number(std::string_view& text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number > max_processor) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::size_t count_processors(const Limits& limits, std::size_t available) {
  if (limits.cpu_millis == 0) return 0;
  const std::size_t wanted = (limits.cpu_millis + millis_per_processor - 1) / millis_per_processor;
  return wanted < available ? wanted : 0;
}

std::vector<unsigned> choose_processors(std::span<const unsigned> available, std::size_t count,
                                        std::size_t range_index) {
  std::vector<unsigned> chosen;
  for (std::size_t index = 0; index < std::min(count, available.size()); ++index)
    chosen.push_back(available[(range_index * count + index) % available.size()]);
  std::ranges::sort(chosen);
  return chosen;
}

std::optional<std::vector<unsigned>> parse_processor_list(std::string_view text) {
  std::vector<unsigned> processors;
  if (text.ends_with('\n')) text.remove_suffix(1);
  while (!text.empty()) {
    const auto first = take_number(text);
    if (!first) return std::nullopt;
    const auto last = take(text, '-') ? take_number(text) : first;
    if (!last || *last < *first || (!processors.empty() && *first <= processors.back()))
      return std::nullopt;
    for (unsigned number = *first; number <= *last; ++number) processors.push_back(number);
    if (text.empty()) break;
    if (!take(text, ',') || text.empty()) return std::nullopt;
  }
  return processors;
}

std::string format_processor_list(std::span<const unsigned> processors) {
  return fmt::format("{}", fmt::join(processors, ","));
}

std::vector<unsigned> read_processors() {
  cpu_set_t set;
  os::check(::sched_getaffinity(0, sizeof set, &set), "sched_getaffinity", "self");
  std::vector<unsigned> processors;
  for (unsigned number = 0; number < CPU_SETSIZE; ++number)
    if (CPU_ISSET(number, &set)) processors.push_back(number);
  return processors;
}

}  // namespace daiv::runtime
