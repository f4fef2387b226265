// cross_entropy: losses = cross_entropy_loss(logits), row by row.
//
//     cross_entropy    return F.cross_entropy(logits.float(), labels, reduction="none")
//
// Reads labels once and logits once from memory and again from the cache, writes losses once.

#include "vector_math.h"

#include <cmath>
#include <cstdint>

constexpr int64_t SPECIAL_VALUE = -100;
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops.
extern "C" void cross_entropy(
    const int64_t *labels,  // (n_rows,)
    const float *logits,    // (n_rows, n_cols)
    float *losses,          // (n_rows,)
    long n_rows,
    long n_cols,
    int64_t table_size) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *logits_row = logits + row * n_cols;

    const int64_t label = labels[row];
    const bool is_less = label < table_size;
    const float logits_value = label >= 0 && is_less ? logits_row[label] : NAN;

    float row_max = -INFINITY;
    int row_max_is_nan = 0;  // comparisons pass NaN over
#pragma omp simd reduction(max : row_max) reduction(| : row_max_is_nan)
    for (long col = 0; col < n_cols; ++col) {
      const float logit = logits_row[col];
      row_max = logit > row_max ? logit : row_max;
      row_max_is_nan |= logit != logit;
    }
    if (row_max_is_nan) {
      row_max = NAN;
    }

    float denominator = 0.0f;
#pragma omp simd reduction(+ : denominator)
    for (long col = 0; col < n_cols; ++col) {
      denominator += expf(logits_row[col] - row_max);
    }
    const float log_denominator = row_max + logf(denominator);
    const float difference = log_denominator - logits_value;
    losses[row] = label != SPECIAL_VALUE ? difference : 0.0f;
  }
}
