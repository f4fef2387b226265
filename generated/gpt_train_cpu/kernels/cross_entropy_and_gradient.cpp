// cross_entropy_and_gradient: losses and unscaled_d_logits, row by row:
//     losses = cross_entropy(logits, targets)
//     unscaled_d_logits = d_cross_entropy(logits, targets, n_counted)
//
//     LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
//
// Reads targets once and logits once from memory and again from the cache, writes losses and
// unscaled_d_logits once; n_counted stays in cache.

#include "vector_math.h"

#include <cmath>
#include <cstdint>

constexpr int64_t IGNORE_INDEX = -100;
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops (numerator in unscaled_d_logits). Sums
// in double.
extern "C" void cross_entropy_and_gradient(
    const float *logits,       // (n_rows, n_cols)
    const int64_t *targets,    // (n_rows,)
    const int64_t *n_counted,  // one element
    float *losses,             // (n_rows,)
    float *unscaled_d_logits,  // (n_rows, n_cols)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *logits_row = logits + row * n_cols;
    float *unscaled_d_logits_row = unscaled_d_logits + row * n_cols;

    const int64_t target = targets[row];
    const bool counts = target != IGNORE_INDEX;
    const bool is_class = target >= 0 && target < n_cols;
    const float target_logit = is_class ? logits_row[target] : NAN;

    float row_max = -INFINITY;
#pragma omp simd reduction(max : row_max)
    for (long col = 0; col < n_cols; ++col) {
      row_max = logits_row[col] > row_max ? logits_row[col] : row_max;
    }

    double wide_denominator = 0.0;
#pragma omp simd reduction(+ : wide_denominator)
    for (long col = 0; col < n_cols; ++col) {
      const float numerator = vector_exp(logits_row[col] - row_max);
      unscaled_d_logits_row[col] = numerator;
      wide_denominator += numerator;
    }
    const float denominator = wide_denominator;
    const float log_denominator = logf(denominator);
    const float loss = log_denominator - (target_logit - row_max);
    losses[row] = counts ? loss : 0.0f;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const bool is_target = col == target;
      const float probability = unscaled_d_logits_row[col] / denominator;
      const float excess = is_target ? probability - 1.0f : probability;

      unscaled_d_logits_row[col] = counts ? excess / static_cast<float>(n_counted[0]) : 0.0f;
    }
  }
}
