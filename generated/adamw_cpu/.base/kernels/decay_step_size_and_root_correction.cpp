// decay_step_size_and_root_correction: step, root_correction, decay and step_size:
//     step = step + 1.0
//     root_correction = sqrt(1.0 - BETA2**step)
//     decay = 1.0 - lr * DECAY
//     step_size = lr / (1.0 - BETA1**step)
//
//     adamw    step += 1
//     adamw    decay = 1 - lr * DECAY
//     adamw    step_size = lr / (1 - BETA1**step)
//     adamw    root_correction = (1 - BETA2**step).sqrt()
//
// Reads step and lr once, writes step, root_correction, decay and step_size once.

#include "vector_math.h"

#include <cmath>

constexpr float BETA2 = 0.999f;
constexpr float DECAY = 0.01f;
constexpr float BETA1 = 0.9f;

// A single element.
extern "C" void decay_step_size_and_root_correction(
    const float *lr,         // one element
    float *step,             // one element; updated in place
    float *root_correction,  // one element
    float *decay,            // one element
    float *step_size) {      // one element
  const float new_step = step[0] + 1.0f;
  const float lr_0 = lr[0];
  step[0] = new_step;
  root_correction[0] = std::sqrt(1.0f - powf(BETA2, new_step));
  decay[0] = 1.0f - lr_0 * DECAY;
  step_size[0] = lr_0 / (1.0f - powf(BETA1, new_step));
}
