// cross_entropy: loss = sum(losses) / sum(targets != -100).
//
//     LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
//
// Reads losses and targets once, writes loss once.

#include <cstdint>

constexpr int64_t IGNORE_INDEX = -100;

// One thread: there is a single row. Sums in double.
extern "C" void cross_entropy(
    const float *losses,     // (n_elements,)
    const int64_t *targets,  // (n_elements,)
    float *loss,             // one element
    long n_elements) {
  double total = 0.0;
  double n_counted = 0.0;
#pragma omp simd reduction(+ : total, n_counted)
  for (long i = 0; i < n_elements; ++i) {
    const bool counts = targets[i] != IGNORE_INDEX;
    total += losses[i];
    n_counted += counts;
  }
  loss[0] = total / n_counted;
}
