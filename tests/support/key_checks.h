// Checks of trace keys: a change of anything that changes code is a miss, and nothing else is. Each returns what is wrong.
#pragma once
#include <string>
#include <vector>

namespace frit::testing {

std::vector<std::string> fields_that_the_key_misses();
std::vector<std::string> what_the_key_sees_too_much();
std::vector<std::string> what_the_key_misses_of_policies();

}  // namespace frit::testing
