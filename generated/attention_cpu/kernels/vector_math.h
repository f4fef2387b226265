// vector_math.h: functions that keep loops under `#pragma omp simd` vectorized without -ffast-math.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

// exp within 1 unit in the last place, denormal results included: more exact than libmvec's, and inlined.
inline float vector_exp(float x) {
  // From -104 on exp rounds to 0. Compared as bits, which order negative floats and take no branch that g++
  // would follow.
  const uint32_t lowest = std::bit_cast<uint32_t>(-104.0f);
  const float clamped = std::bit_cast<float>(std::min(std::bit_cast<uint32_t>(x), lowest));

  // x = whole * log(2) + rest: adding 1.5 * 2^23 leaves the whole part in the last bits. log(2) in two parts.
  const float shifted = clamped * 1.44269504f + 0x1.8p23f;
  const float whole = shifted - 0x1.8p23f;
  const float rest = clamped - whole * 0x1.62e4p-1f - whole * 1.4286068e-6f;

  float power = 1.3814596e-3f;
  power = power * rest + 8.3687171e-3f;
  power = power * rest + 4.1668388e-2f;
  power = power * rest + 1.6666521e-1f;
  power = power * rest + 4.9999994e-1f;
  power = power * rest + 1.0f;
  power = power * rest + 1.0f;

  // The whole part moves into the exponent. Tiny results are made 2^64 times as large first: they may be
  // denormal.
  const bool is_tiny = clamped < -87.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + (is_tiny ? 64 : 0)) << 23;
  const float raised = std::bit_cast<float>(std::bit_cast<uint32_t>(power) + exponent);
  const float result = is_tiny ? raised * 0x1p-64f : raised;

  return x < 88.72284f ? result : x + INFINITY;  // infinity, or NaN
}
