// cross_entropy: losses = sum(cross_entropy_loss_losses) / sum(targets != -100), row by row.
//
//     LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
//
// Reads cross_entropy_loss_losses and targets once, writes losses once.

#include <cstdint>

constexpr int64_t IGNORE_INDEX = -100;
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread: there is a single row.
extern "C" void cross_entropy(
    const float *cross_entropy_loss_losses,  // (n_elements,)
    const int64_t *targets,                  // (n_elements,)
    float *losses,                           // one element
    long n_elements) {
  double total = 0.0;
  double n_counted = 0.0;
#pragma omp simd reduction(+ : total, n_counted)
  for (long i = 0; i < n_elements; ++i) {
    const bool counts = targets[i] != IGNORE_INDEX;
    total += cross_entropy_loss_losses[i];
    n_counted += static_cast<float>(counts);
  }
  losses[0] = total / n_counted;
}
