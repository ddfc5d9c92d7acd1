#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>

#include "agent/fs_file_search.hpp"
#include "agent/fs_operations.hpp"
#include "agent/fs_path.hpp"
#include "agent/fs_search_base.hpp"
#include "agent/fs_walk.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

using Clock = std::chrono::steady_clock;

// No tree and no expression keeps a session for longer.
constexpr std::chrono::seconds grep_limit{30};
// One match more than is given tells whether there are more.
constexpr std::size_t wanted_matches = max_grep_matches + 1;

GrepReply failed(FsError error) { return {{}, false, std::move(error)}; }

FsError search_error(const std::string& path, const SearchResult& result) {
  const auto text = [&](std::string_view what) {
    return FsError{FsErrorCode::exec_failed, "grep: " + path + ": " + std::string(what)};
  };
  switch (result.end) {
    case SearchEnd::done:
    case SearchEnd::failed:
      break;
    case SearchEnd::too_long:
      return text("line too long to be searched");
    case SearchEnd::too_complex:
      return text("expression too complex for this line");
    case SearchEnd::too_late:
      return text("the search took too long");
  }
  return text(os::describe_errno(result.errno_value));
}

// A file of the tree, below the base.
struct Candidate {
  const WalkedDirectory* directory;
  const DirectoryEntry* entry;

  [[nodiscard]] std::string path() const { return directory->path + entry->name; }
};

// Folder by folder in byte order of their paths, in each the files in byte order of their names.
std::vector<Candidate> candidates_in_order(
    std::vector<std::unique_ptr<WalkedDirectory>>& directories,
    const std::optional<Wildcard>& filter) {
  std::ranges::sort(directories, {}, [](const auto& d) -> const std::string& { return d->path; });
  std::vector<Candidate> files;
  for (const auto& directory : directories) {
    for (const DirectoryEntry& entry : directory->entries) {
      if (entry.kind != EntryKind::file) continue;
      if (filter && !filter->matches(entry.name)) continue;
      files.push_back({directory.get(), &entry});
    }
  }
  return files;
}

bool is_passed_over(int errno_value) {
  // Gone, or something else by now: a link (ELOOP), a socket (ENXIO), a directory, a FIFO (EAGAIN).
  return is_absence(errno_value) || errno_value == ENXIO || errno_value == ENODEV ||
         errno_value == EISDIR || errno_value == EAGAIN;
}

// Searches the files of a tree in order, on all threads, and stops when enough is found.
class TreeSearch {
public:
  TreeSearch(const os::UniqueFd& base, const CompiledPattern& pattern,
             const std::vector<Candidate>& files, Clock::time_point deadline)
      : base_(base),
        pattern_(pattern),
        files_(files),
        results_(files.size()),
        deadline_(deadline) {}

  // The results of a beginning of the files that holds enough matches, or of all.
  const std::vector<SearchResult>& run() {
    const std::size_t threads =
        std::clamp<std::size_t>(files_.size() / files_per_thread, 1, worker_count());
    run_on_threads(threads, [this] { work(); });
    return results_;
  }

private:
  static constexpr std::size_t files_per_thread = 64;
  static constexpr std::size_t batch = 8;

  void work() {
    FileSearcher searcher(pattern_);
    // Files are taken in order: once those taken hold enough, none that follows can change the
    // answer.
    while (found_ < wanted_matches && !stop_) {
      const std::size_t begin = next_.fetch_add(batch);
      if (begin >= files_.size()) return;
      const std::size_t end = std::min(begin + batch, files_.size());
      for (std::size_t i = begin; i < end; ++i) search(i, searcher);
    }
  }

  void search(std::size_t index, FileSearcher& searcher) {
    SearchResult& result = results_[index];
    result = search_file(files_[index].path(), searcher);
    if (result.end == SearchEnd::too_long) {
      // One such file, of data most likely, does not hide what the others hold.
      result.end = SearchEnd::done;
      result.incomplete = true;
    } else if (result.end == SearchEnd::failed && is_passed_over(result.errno_value)) {
      const bool too_deep = result.errno_value == ENAMETOOLONG;
      result = {};
      result.incomplete = too_deep;
    }
    found_ += result.matches.size();
    if (result.end != SearchEnd::done) stop_ = true;
  }

  SearchResult search_file(const std::string& path, FileSearcher& searcher) const {
    SearchResult result;
    if (Clock::now() > deadline_) {
      result.end = SearchEnd::too_late;
      return result;
    }
    const OrErrno<os::UniqueFd> fd = open_quick(base_, path, O_RDONLY | O_NOFOLLOW);
    if (fd) return searcher.search(*fd, wanted_matches, deadline_);
    result.end = SearchEnd::failed;
    result.errno_value = fd.error();
    return result;
  }

  const os::UniqueFd& base_;
  const CompiledPattern& pattern_;
  const std::vector<Candidate>& files_;
  std::vector<SearchResult> results_;
  Clock::time_point deadline_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> found_ = 0;
  std::atomic<bool> stop_ = false;
};

// Collects the answer, match by match, until it is full.
class Collector {
public:
  // Returns false when the answer is complete and nothing that follows can change it.
  bool add(const std::string& path, const SearchResult& result) {
    for (const LineMatch& match : result.matches) {
      text_bytes_ += path.size() + match.text.size();
      if (reply_.matches.size() == max_grep_matches || text_bytes_ > max_answer_text_bytes) {
        reply_.truncated = true;
        return false;
      }
      reply_.matches.push_back({path, match.line, match.text});
    }
    if (result.more || result.incomplete) reply_.truncated = true;
    if (result.more || result.end == SearchEnd::done) return !result.more;
    // Only now, after all that comes before it: whoever asks again gets the same answer.
    reply_ = failed(search_error(path, result));
    return false;
  }

  void note_incomplete() { reply_.truncated = true; }

  GrepReply take() { return std::move(reply_); }

private:
  static constexpr std::size_t max_answer_text_bytes = max_search_text_bytes;

  GrepReply reply_;
  std::size_t text_bytes_ = 0;
};

GrepReply grep_file(const FsRoot& root, const std::string& path, const CompiledPattern& pattern) {
  const auto file = open_regular(root, path, O_RDONLY, DirectoryHint::none);
  if (!file && file.error().code == FsErrorCode::not_found) return {};
  if (!file) return failed(file.error());
  FileSearcher searcher(pattern);
  const SearchResult result = searcher.search(file->fd, wanted_matches, Clock::now() + grep_limit);
  Collector collector;
  collector.add(path, result);
  return collector.take();
}

GrepReply grep_tree(const os::UniqueFd& base, const GrepRequest& request,
                    const CompiledPattern& pattern, const std::optional<Wildcard>& filter,
                    const PruneList& prune) {
  const Clock::time_point deadline = Clock::now() + grep_limit;
  const std::vector<Wildcard> pruned = prune_patterns(prune, request.exclude);
  auto directories =
      walk(base, {},
           [&](const WalkedDirectory& /*parent*/, const DirectoryEntry& entry,
               std::vector<std::uint32_t>& /*state*/) { return !any_matches(pruned, entry.name); });
  const std::vector<Candidate> files = candidates_in_order(directories, filter);
  TreeSearch search(base, pattern, files, deadline);
  const std::vector<SearchResult>& results = search.run();
  const std::string prefix = listing_prefix(request.path);
  Collector collector;
  if (std::ranges::any_of(directories, &WalkedDirectory::too_deep)) collector.note_incomplete();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const SearchResult& result = results[i];
    if (result.matches.empty() && result.end == SearchEnd::done && !result.incomplete) continue;
    if (!collector.add(prefix + files[i].path(), result)) break;
  }
  return collector.take();
}

std::string_view base_name(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

GrepReply fs_grep(const FsRoot& root, const GrepRequest& request, const PruneList& prune) {
  const auto base = open_search_base(root, request.path, SearchKind::grep);
  if (!base) return failed(base.error());
  const std::optional<CompiledPattern> pattern = CompiledPattern::compile(request.pattern);
  if (!pattern) {
    return failed({FsErrorCode::invalid_pattern,
                   "invalid regular expression: " + python_repr(request.pattern)});
  }
  std::optional<Wildcard> filter;
  if (request.glob) filter.emplace(*request.glob, WildcardFlavour::shell);
  if (base->directory) return grep_tree(base->directory, request, *pattern, filter, prune);
  const bool searched = base->is_file && (!filter || filter->matches(base_name(request.path)));
  return searched ? grep_file(root, request.path, *pattern) : GrepReply{};
}

}  // namespace daiv::agent
