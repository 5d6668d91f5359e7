// Modules, layers, their functional forms, initial values.
#pragma once
#include "frit/nn/activations.h"
#include "frit/nn/attention.h"
#include "frit/nn/containers.h"
#include "frit/nn/functional.h"
#include "frit/nn/init.h"
#include "frit/nn/layers.h"
#include "frit/nn/losses.h"
#include "frit/nn/module.h"
#include "frit/nn/resampling.h"
#include "frit/nn/spatial_layers.h"
#include "frit/nn/utils.h"
