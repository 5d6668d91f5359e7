// Names of axes in traces, for the recorder's own files.
#pragma once
#include "tracer/trace.h"

namespace frit::tracer {

void name_axes(Trace& t, uint32_t n, const std::vector<uint16_t>& names);  // of a node whose size ids are its own (expand with kind 1)

}  // namespace frit::tracer
