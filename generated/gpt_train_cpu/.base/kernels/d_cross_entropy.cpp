// d_cross_entropy: ne = targets != -100; sums = sum(ne), row by row.
//
//     LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
//
// Reads targets once, writes ne and sums once.

#include <cstdint>

constexpr int64_t SPECIAL_VALUE = -100;
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread: there is a single row.
extern "C" void d_cross_entropy(
    const int64_t *targets,  // (n_elements,)
    bool *ne,                // (n_elements,)
    int64_t *sums,           // one element
    long n_elements) {
  int64_t total_sum = 0;
#pragma omp simd reduction(+ : total_sum)
  for (long i = 0; i < n_elements; ++i) {
    const bool ne_value = targets[i] != SPECIAL_VALUE;
    total_sum += static_cast<int64_t>(ne_value);
    ne[i] = ne_value;
  }
  sums[0] = total_sum;
}
