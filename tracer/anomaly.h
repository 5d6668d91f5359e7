// Looking for NaNs, for DetectAnomalyGuard.
#pragma once
#include "tracer/trace.h"

namespace frit::tracer {

bool has_nan(const Value& v);
// After a flush: the first node whose value has a NaN while its operands have none. Keeps the first that was ever found.
void find_first_nan(const Trace& t, Anomaly& a);
// " The first NaN of the forward computation was made by log at train.cpp:30.", or empty.
std::string first_nan_text(const Anomaly& a);

}  // namespace frit::tracer
