#pragma once

#include <cstddef>

namespace daiv::api {

// What all bodies that are held in memory at one time may amount to. Used on the io thread alone.
class BodyBudget {
public:
  explicit BodyBudget(std::size_t most) noexcept : left_(most) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  // One request's part; given back with it.
  class Share {
  public:
    explicit Share(BodyBudget& budget) noexcept : budget_(budget) {}
    ~Share() { budget_.left_ += bytes_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    enum class Verdict { taken, exhausted };
    Verdict grow(std::size_t bytes) noexcept {
      if (bytes > budget_.left_) return Verdict::exhausted;
      budget_.left_ -= bytes;
      bytes_ += bytes;
      return Verdict::taken;
    }

  private:
    BodyBudget& budget_;
    std::size_t bytes_ = 0;
  };

private:
  std::size_t left_;
};

}  // namespace daiv::api
