// What other files add to the record of a run.
#pragma once
#include <string>
#include <nlohmann/json_fwd.hpp>

namespace frit::detail {

bool run_is_recorded();            // FRIT_REPORT is set, and this is the process that writes the record
void pin_buckets(const std::string& path);  // of FRIT_BUCKETS: what the program sets for these axes changes nothing (compile.cpp)
void record_nothing();             // after all: the command line itself is no run
nlohmann::json bench_results();    // of the bodies measured so far (bench.cpp)

}  // namespace frit::detail
