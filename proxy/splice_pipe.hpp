#pragma once

#include <memory>
#include <optional>

#include "os/io.hpp"
#include "proxy/channel.hpp"

namespace daiv::proxy {

// A pipe through which splice(2) moves bytes from one plain socket to another without a copy in
// user space. What it holds is memory of the kernel that no buffer of ours accounts for, so the
// connections of one session share a few.
class SplicePipe {
public:
  // Nothing where the session of `set` has all its pipes in use, or no pipe can be had: bytes are
  // copied then.
  static std::optional<SplicePipe> make(ChannelSet& set);

  // Takes what `from` has, up to the size of the pipe; to be called only while it is empty.
  Transfer fill(Channel& from);
  // Gives `to` what it takes.
  Transfer drain(Channel& to);
  [[nodiscard]] bool empty() const noexcept { return held_ == 0; }

private:
  struct GiveBack {
    void operator()(std::size_t* in_use) const noexcept { --*in_use; }
  };
  using Share = std::unique_ptr<std::size_t, GiveBack>;

  SplicePipe(os::Pipe pipe, Share share) : pipe_(std::move(pipe)), share_(std::move(share)) {}

  os::Pipe pipe_;
  Share share_;
  std::size_t held_ = 0;
};

}  // namespace daiv::proxy
