// cross_entropy_n_counted: n_counted = sum(targets != -100).
//
//     LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
//
// Reads targets once, writes n_counted once.

#include <cstdint>

constexpr int64_t IGNORE_INDEX = -100;

// One thread: there is a single row.
extern "C" void cross_entropy_n_counted(
    const int64_t *targets,  // (n_elements,)
    int64_t *n_counted,      // one element
    long n_elements) {
  int64_t n_counted_i = 0;
#pragma omp simd reduction(+ : n_counted_i)
  for (long i = 0; i < n_elements; ++i) {
    const bool counts = targets[i] != IGNORE_INDEX;
    n_counted_i += counts;
  }
  n_counted[0] = n_counted_i;
}
