// Checks of followed traces and repeated flushes: a program that has been repeated often, and then meets what makes it another one.
#pragma once
#include <string>
#include <vector>

namespace frit::testing {

std::vector<std::string> what_repetition_gets_wrong();  // one line for each thing

}  // namespace frit::testing
