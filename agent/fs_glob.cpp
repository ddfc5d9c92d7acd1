#include <algorithm>
#include <string_view>

#include "agent/fs_operations.hpp"
#include "agent/fs_search_base.hpp"
#include "agent/fs_walk.hpp"
#include "agent/fs_wildcard.hpp"

namespace daiv::agent {
namespace {

// A pattern of path segments, run as a small automaton: a state is the index of the segment that
// comes next. "**" stands for any number of segments, as the last one for at least one.
class PathPattern {
public:
  explicit PathPattern(std::string_view pattern) {
    for (;;) {
      const std::size_t slash = pattern.find('/');
      const std::string_view text = pattern.substr(0, slash);
      segments_.push_back({text == "**", Wildcard(text, WildcardFlavour::glob)});
      if (slash == std::string_view::npos) break;
      pattern.remove_prefix(slash + 1);
    }
  }

  using States = std::vector<std::uint32_t>;  // ascending

  [[nodiscard]] States start() const {
    States states;
    add(states, 0);
    return states;
  }

  // Whether a path that led to `states` ends in a match with `name`.
  [[nodiscard]] bool ends_with(const States& states, std::string_view name) const {
    return std::ranges::any_of(states, [&](std::uint32_t state) {
      const Segment& segment = segments_[state];
      if (state + 1 < segments_.size()) return false;
      return segment.any_depth || segment.wildcard.matches(name);
    });
  }

  // The states below a directory `name`.
  [[nodiscard]] States step(const States& states, std::string_view name) const {
    States next;
    for (const std::uint32_t state : states) {
      const Segment& segment = segments_[state];
      if (segment.any_depth) {
        add(next, state);
      } else if (state + 1 < segments_.size() && segment.wildcard.matches(name)) {
        add(next, state + 1);
      }
    }
    return next;
  }

private:
  struct Segment {
    bool any_depth;
    Wildcard wildcard;
  };

  // Adds `state`, and what follows it where it may stand for nothing.
  void add(States& states, std::uint32_t state) const {
    for (;; ++state) {
      if (std::ranges::find(states, state) == states.end()) states.push_back(state);
      if (!segments_[state].any_depth || state + 1 == segments_.size()) return;
    }
  }

  std::vector<Segment> segments_;
};

}  // namespace

GlobReply fs_glob(const FsRoot& root, const GlobRequest& request, const PruneList& prune) {
  const auto base = open_search_base(root, request.path, SearchKind::glob);
  if (!base) return {{}, base.error()};
  if (!base->directory) return {};
  const PathPattern pattern(request.pattern);
  const std::vector<Wildcard> pruned = prune_patterns(prune, request.exclude);
  const auto descend = [&](const WalkedDirectory& parent, const DirectoryEntry& entry,
                           std::vector<std::uint32_t>& state) {
    state = pattern.step(parent.state, entry.name);
    return !state.empty() && !any_matches(pruned, entry.name);
  };
  const auto directories = walk(base->directory, pattern.start(), descend);
  GlobReply reply;
  const std::string prefix = listing_prefix(request.path);
  for (const auto& directory : directories) {
    for (const DirectoryEntry& entry : directory->entries) {
      if (!pattern.ends_with(directory->state, entry.name)) continue;
      const bool is_dir = entry.kind == EntryKind::directory;
      if (is_dir && any_matches(pruned, entry.name)) continue;
      reply.matches.push_back({prefix + directory->path + entry.name, is_dir});
    }
  }
  std::ranges::sort(reply.matches, {}, &FsEntry::path);
  return reply;
}

}  // namespace daiv::agent
