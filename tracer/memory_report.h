// Who holds memory, for the message when there is no more.
#pragma once
#include <string>
#include "tracer/trace.h"

namespace frit::tracer {

// What a trace and the traces that its gradients reach hold: " Saved for backward: 1.5 GiB, most by sin at train.cpp:30 (1.2 GiB). …"
std::string memory_report(const Trace& t);

}  // namespace frit::tracer
