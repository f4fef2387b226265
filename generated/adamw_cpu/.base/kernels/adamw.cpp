// adamw: exp_avg, exp_avg_sq and param from these and grad, for all tensors of the lists.
//
//     adamw    param.mul_(decay)
//     adamw    exp_avg.lerp_(grad, 1 - BETA1)
//     adamw    exp_avg_sq.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
//     adamw    denominator = exp_avg_sq.sqrt() / root_correction + EPS
//     adamw    param.sub_(step_size * exp_avg / denominator)
//
// One launch over lists of tensors of any sizes. Reads exp_avg, grad, exp_avg_sq and param once, writes
// exp_avg, exp_avg_sq and param once; decay, step_size and root_correction stay in cache.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

constexpr float ONE_MINUS_BETA1 = 0.1f;
constexpr float BETA2 = 0.999f;
constexpr float ONE_MINUS_BETA2 = 0.001f;
constexpr long CHUNK = 16384;  // elements that a thread takes at a time

// Threads share out chunks of all tensors.
extern "C" void adamw(
    const float *const *grads,     // n_tensors x (n_elements,)
    const float *decay,            // one element
    const float *step_size,        // one element
    const float *root_correction,  // one element
    float *const *exp_avgs,        // n_tensors x (n_elements,); updated in place
    float *const *exp_avg_sqs,     // n_tensors x (n_elements,); updated in place
    float *const *params,          // n_tensors x (n_elements,); updated in place
    const int64_t *n_elements,     // of each tensor
    long n_tensors,
    float eps) {
  std::vector<long> first_chunk(n_tensors + 1);  // of each tensor, and their number
  for (long tensor = 0; tensor < n_tensors; ++tensor) {
    first_chunk[tensor + 1] = first_chunk[tensor] + (n_elements[tensor] + CHUNK - 1) / CHUNK;
  }
  const long n_chunks = first_chunk[n_tensors];

#pragma omp parallel for schedule(dynamic) if (n_chunks > 1)
  for (long chunk = 0; chunk < n_chunks; ++chunk) {
    const auto next = std::upper_bound(first_chunk.begin(), first_chunk.end(), chunk);
    const long tensor = next - first_chunk.begin() - 1;
    const long start = (chunk - first_chunk[tensor]) * CHUNK;
    const long end = std::min<long>(start + CHUNK, n_elements[tensor]);
    const float *grad = grads[tensor];
    float *exp_avg = exp_avgs[tensor];
    float *exp_avg_sq = exp_avg_sqs[tensor];
    float *param = params[tensor];
    const float decay_0 = decay[0];
    const float step_size_0 = step_size[0];
    const float root_correction_0 = root_correction[0];

#pragma omp simd
    for (long i = start; i < end; ++i) {
      const float exp_avg_i = exp_avg[i];
      const float grad_i = grad[i];
      const float new_exp_avg = exp_avg_i + (grad_i - exp_avg_i) * ONE_MINUS_BETA1;
      const float new_exp_avg_sq = exp_avg_sq[i] * BETA2 + grad_i * grad_i * ONE_MINUS_BETA2;
      const float denominator = std::sqrt(new_exp_avg_sq) / root_correction_0 + eps;
      const float ratio = step_size_0 * new_exp_avg / denominator;

      exp_avg[i] = new_exp_avg;
      exp_avg_sq[i] = new_exp_avg_sq;
      param[i] = param[i] * decay_0 - ratio;
    }
  }
}
