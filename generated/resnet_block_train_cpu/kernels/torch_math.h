// torch_math.h: operations to which PyTorch gives another meaning than C++ does.
#pragma once

#include <cmath>
#include <cstdint>

// NaN if either is NaN.
inline float maximum(float a, float b) {
  return b > a || b != b ? b : a;
}
inline double maximum(double a, double b) {
  return b > a || b != b ? b : a;
}
