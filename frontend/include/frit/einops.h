// The pattern language of einops: axes by name, parentheses for axes that are composed, "..." for any axes, 1 for an axis of
// extent one, numbers for axes without a name. Results are views where strides allow.
//   rearrange(x, "b l (h d) -> b h l d", {{"h", 8}})
//   einops_reduce(x, "b c (h 2) (w 2) -> b c h w", "max")
//   einops_repeat(x, "h w -> h w c", {{"c", 3}})
#pragma once
#include "frit/functions.h"

namespace frit {

using AxisSizes = std::vector<std::pair<std::string, int64_t>>;

Tensor rearrange(const Tensor& x, const std::string& pattern, const AxisSizes& sizes = {});
Tensor rearrange(const TensorList& parts, const std::string& pattern, const AxisSizes& sizes = {});  // stacked: the first axis of the pattern
Tensor einops_reduce(const Tensor& x, const std::string& pattern, const std::string& reduction, const AxisSizes& sizes = {});  // mean sum max min prod any all
Tensor einops_reduce(const TensorList& parts, const std::string& pattern, const std::string& reduction, const AxisSizes& sizes = {});
Tensor einops_repeat(const Tensor& x, const std::string& pattern, const AxisSizes& sizes = {});
Tensor einops_repeat(const TensorList& parts, const std::string& pattern, const AxisSizes& sizes = {});

}  // namespace frit
