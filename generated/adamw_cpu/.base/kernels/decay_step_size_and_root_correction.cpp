// decay_step_size_and_root_correction: step = step + 1.0; root_correction = sqrt(1.0 - 0.999**step); decay =
// 1.0 - lr * 0.01; step_size = lr / (1.0 - 0.9**step).
//
//     adamw    step += 1
//     adamw    decay = 1 - lr * DECAY
//     adamw    step_size = lr / (1 - BETA1**step)
//     adamw    root_correction = (1 - BETA2**step).sqrt()
//
// Reads step and lr once, writes step, root_correction, decay and step_size once.

#include "vector_math.h"

#include <cmath>

// A single element.
extern "C" void decay_step_size_and_root_correction(
    const float *lr,         // one element
    float *step,             // one element; updated in place
    float *root_correction,  // one element
    float *decay,            // one element
    float *step_size) {      // one element
  const float shifted_step = step[0] + 1.0f;
  const float lr_value = lr[0];
  step[0] = shifted_step;
  root_correction[0] = std::sqrt(1.0f - powf(0.999f, shifted_step));
  decay[0] = 1.0f - lr_value * 0.01f;
  step_size[0] = lr_value / (1.0f - powf(0.9f, shifted_step));
}
