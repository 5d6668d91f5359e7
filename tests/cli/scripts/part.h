#pragma once
constexpr double offset = 1;
