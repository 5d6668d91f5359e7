// Which fault of faults.cmake is on, by its place there; 0: none.
#pragma once

namespace frit::testing {
extern int planted_fault;
}
