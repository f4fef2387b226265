// vector_math.h: functions that keep loops under `#pragma omp simd` vectorized without -ffast-math.
#pragma once

#include <features.h>

// Tells g++ that libm's functions have SIMD versions in libmvec (x86, glibc 2.35 or newer).
#if defined(__x86_64__) && __GLIBC__ * 100 + __GLIBC_MINOR__ >= 235
#define VECTORIZED __attribute__((simd("notinbranch"), const))
#else
#define VECTORIZED __attribute__((const))  // older libm: one element at a time: right, but slower
#endif

extern "C" {
VECTORIZED float powf(float, float) noexcept;
}
#undef VECTORIZED
