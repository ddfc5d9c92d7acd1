#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

// What becomes of a member of a seed's archive, by its name, link target and mode alone: the rules
// of the Docker variant. Pure; names are bytes, not necessarily UTF-8.
namespace daiv::agent {

enum class NameVerdict {
  fine,
  root,      // the target folder itself: nothing to make
  absolute,  // refuses the whole archive
  parent,    // has a ".." component: refuses the whole archive
  too_long,  // can't be made: left out
};

struct TidyName {
  NameVerdict verdict = NameVerdict::fine;
  std::string path;  // for `fine`: components joined by single slashes, none of them "." or empty
};

// A component above NAME_MAX or a path above PATH_MAX is too long.
TidyName tidy_name(std::string_view name);

// The text that refuses an archive for `name`; empty for verdicts that do not.
std::string refusal(NameVerdict verdict, std::string_view name);

// Whether a symlink at the tidy `path` with this target stays below the tree's root, by its text
// alone. Empty targets don't: such a link can't be made.
bool link_stays_inside(std::string_view path, std::string_view target);

// Readable for all and writable for its owner; executable for all if it was for anybody; no special
// bits.
mode_t file_mode(mode_t mode);
mode_t directory_mode(mode_t mode);

// `name` as Python's repr() shows a text of these bytes: clients match messages that hold one.
std::string quote_as_python(std::string_view name);

}  // namespace daiv::agent
