#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>
#include <vector>

namespace daiv::cli {

// Shows how a pull or load goes on, layer by layer.
class ProgressDisplay {
public:
  enum class Style {
    none,
    lines,     // one line for each change of stage, for logs
    terminal,  // one line for each layer, drawn over (ECMA-48 cursor movement)
  };
  static Style style_for_stdout();

  explicit ProgressDisplay(Style style) : style_(style) {}
  void show(const nlohmann::json& event);
  void finish();

private:
  void draw();

  Style style_;
  std::vector<std::string> order_;
  std::map<std::string, std::string> lines_;
  std::map<std::string, std::string> stages_;
  std::size_t drawn_ = 0;
};

}  // namespace daiv::cli
