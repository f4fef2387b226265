// cross_entropy: losses = cross_entropy(logits, labels), row by row.
//
//     cross_entropy    return F.cross_entropy(logits.float(), labels, reduction="none")
//
// Reads labels once and logits once from memory and again from the cache, writes losses once.

#include "vector_math.h"

#include <cmath>
#include <cstdint>

constexpr int64_t IGNORE_INDEX = -100;
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops.
extern "C" void cross_entropy(
    const float *logits,    // (n_rows, n_cols)
    const int64_t *labels,  // (n_rows,)
    float *losses,          // (n_rows,)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *logits_row = logits + row * n_cols;

    const int64_t label = labels[row];
    const bool counts = label != IGNORE_INDEX;
    const bool is_class = label >= 0 && label < n_cols;
    const float target_logit = is_class ? logits_row[label] : NAN;

    float row_max = -INFINITY;
#pragma omp simd reduction(max : row_max)
    for (long col = 0; col < n_cols; ++col) {
      row_max = logits_row[col] > row_max ? logits_row[col] : row_max;
    }

    float denominator = 0.0f;
#pragma omp simd reduction(+ : denominator)
    for (long col = 0; col < n_cols; ++col) {
      denominator += vector_exp(logits_row[col] - row_max);
    }
    const float log_denominator = logf(denominator);
    const float loss = log_denominator - (target_logit - row_max);
    losses[row] = counts ? loss : 0.0f;
  }
}
