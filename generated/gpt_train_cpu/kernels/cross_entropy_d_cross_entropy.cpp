// cross_entropy_d_cross_entropy: cross entropy, softmax, eq, sub and more in one pass, from logits to
// cross_entropy_loss_losses and selected, row by row.
//
//     LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
//
// Reads targets and ne once and logits once from memory and again from the cache, writes
// cross_entropy_loss_losses and selected once; sums stays in cache.

#include "vector_math.h"

#include <cmath>
#include <cstdint>

constexpr int64_t IGNORE_INDEX = -100;
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops.
extern "C" void cross_entropy_d_cross_entropy(
    const int64_t *targets,            // (n_rows,)
    const float *logits,               // (n_rows, n_cols)
    const bool *ne,                    // (n_rows,)
    const int64_t *sums,               // one element
    float *cross_entropy_loss_losses,  // (n_rows,)
    float *selected,                   // (n_rows, n_cols)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *logits_row = logits + row * n_cols;
    float *selected_row = selected + row * n_cols;

    const int64_t target = targets[row];
    const bool counts = target != IGNORE_INDEX;
    const bool is_class = target >= 0 && target < n_cols;
    const float target_logit = is_class ? logits_row[target] : NAN;
    const bool ne_value = ne[row];

    float row_max = -INFINITY;
#pragma omp simd reduction(max : row_max)
    for (long col = 0; col < n_cols; ++col) {
      row_max = logits_row[col] > row_max ? logits_row[col] : row_max;
    }

    double wide_denominator = 0.0;
#pragma omp simd reduction(+ : wide_denominator)
    for (long col = 0; col < n_cols; ++col) {
      const float numerator = vector_exp(logits_row[col] - row_max);
      selected_row[col] = numerator;
      wide_denominator += numerator;
    }
    const float denominator = wide_denominator;
    const float log_denominator = row_max + logf(denominator);
    const float loss = log_denominator - target_logit;
    cross_entropy_loss_losses[row] = counts ? loss : 0.0f;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float ratio = selected_row[col] / denominator;
      const float ratio_selected = col == target ? ratio - 1.0f : ratio;
      const float ratio_selected_ratio = ratio_selected / static_cast<float>(sums[0]);

      selected_row[col] = ne_value ? ratio_selected_ratio : 0.0f;
    }
  }
}
