// The classes of crash bugs. Every canary names the classes that it represents; a class without a
// canary of an engine has a reason why it cannot occur there.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lodgekv::test {

inline constexpr unsigned kBugClasses = 26;  // BC1 to BC26

// A set of classes.
using Bugs = uint32_t;
template <class... Numbers>
constexpr Bugs Bc(Numbers... numbers) {
  return ((Bugs{1} << (numbers - 1)) | ...);
}
constexpr bool StandsFor(Bugs bugs, unsigned bug_class) { return (bugs & Bc(bug_class)) != 0; }

std::string_view BugClassName(unsigned bug_class);

struct DoesNotApply {
  unsigned bug_class;
  std::string_view reason;
};
std::span<const DoesNotApply> ClassesWithout(std::string_view engine);

}  // namespace lodgekv::test
