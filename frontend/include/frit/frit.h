// Frit's public API in one light header (no iostream: see frit/print.h and frit/torch.h).
#pragma once
#include "frit/autograd.h"
#include "frit/bench.h"
#include "frit/compile.h"
#include "frit/custom_function.h"
#include "frit/einops.h"
#include "frit/einsum.h"
#include "frit/files.h"
#include "frit/functions.h"
#include "frit/memory.h"
#include "frit/tensor.h"
#include "frit/data.h"
#include "frit/nn.h"
#include "frit/optim.h"
#include "frit/serialize.h"
#include "runtime/launch.h"  // set_num_threads
