#include "cli/progress_display.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace daiv::cli {
namespace {

std::string describe(const nlohmann::json& event) {
  const std::string layer = event.at("layer");
  const std::uint64_t bytes = event.at("bytes");
  const std::uint64_t total = event.at("total_bytes");
  std::string line = fmt::format("{:.19}  {}", layer.empty() ? "image" : layer,
                                 event.at("event").get<std::string>());
  if (total > 0)
    line += fmt::format("  {:.1f} / {:.1f} MB", static_cast<double>(bytes) / 1e6,
                        static_cast<double>(total) / 1e6);
  return line;
}

}  // namespace

ProgressDisplay::Style ProgressDisplay::style_for_stdout() {
  return ::isatty(STDOUT_FILENO) == 1 ? Style::terminal : Style::lines;
}

void ProgressDisplay::show(const nlohmann::json& event) {
  const std::string layer = event.at("layer");
  const std::string stage = event.at("event");
  const bool changed = stages_[layer] != stage;
  stages_[layer] = stage;
  switch (style_) {
    case Style::none:
      break;
    case Style::lines:
      if (changed) fmt::print("{}\n", describe(event));
      break;
    case Style::terminal:
      if (!lines_.contains(layer)) order_.push_back(layer);
      lines_[layer] = describe(event);
      draw();
      break;
  }
  std::fflush(stdout);
}

void ProgressDisplay::draw() {
  if (drawn_ > 0) fmt::print("\x1b[{}A", drawn_);
  for (const auto& layer : order_) fmt::print("\r\x1b[K{}\n", lines_.at(layer));
  drawn_ = order_.size();
}

void ProgressDisplay::finish() { std::fflush(stdout); }

}  // namespace daiv::cli
