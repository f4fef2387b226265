// vector_math.h: functions that keep loops under `#pragma omp simd` vectorized without -ffast-math.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// erf within 3 units in the last place, in half the time of libmvec's erff: its numbers stay in registers.
inline float vector_erf(float x) {
  const float absolute = std::abs(x);

  // Near 0: an odd polynomial.
  const float square = x * x;
  float slope = -6.0903583e-4f;
  slope = slope * square + 5.0119625e-3f;
  slope = slope * square - 2.6778909e-2f;
  slope = slope * square + 1.1282141e-1f;
  slope = slope * square - 3.7612523e-1f;
  slope = slope * square + 1.1283792f;

  // Elsewhere: 1 - erfc, and a polynomial for the logarithm of erfc to base 2. From 4 on, erf rounds to 1.
  const float clamped = absolute > 4.0f ? 4.0f : absolute;
  float logarithm = -1.8056271e-3f;
  logarithm = logarithm * clamped + 2.2475846e-2f;
  logarithm = logarithm * clamped - 1.3144282e-1f;
  logarithm = logarithm * clamped - 9.3884134e-1f;
  logarithm = logarithm * clamped - 1.6160938f;
  logarithm = logarithm * clamped - 2.7088509e-3f;

  // 2^logarithm: adding 1.5 * 2^23 leaves the whole part in the last bits, which are moved into the exponent.
  const float shifted = logarithm + 0x1.8p23f;
  const float fraction = logarithm - (shifted - 0x1.8p23f);
  float power = 1.3276467e-3f;
  power = power * fraction + 9.6755413e-3f;
  power = power * fraction + 5.5507133e-2f;
  power = power * fraction + 2.4022120e-1f;
  power = power * fraction + 6.9314697e-1f;
  power = power * fraction + 1.0000001f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;
  const float erfc = std::bit_cast<float>(std::bit_cast<uint32_t>(power) + exponent);

  return absolute >= 0.9f ? std::copysign(1.0f - erfc, x) : x * slope;  // NaN: the second
}
