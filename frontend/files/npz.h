// npz on sources: npy files in a zip file.
#pragma once
#include "frit/files.h"
#include "frontend/files/bytes.h"

namespace frit::files {

std::map<std::string, Tensor> read_npz(const Source& source);

}  // namespace frit::files
