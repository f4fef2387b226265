// rotary: a test.

#include "bfloat16.h"

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void rotary(
    const bfloat16 *q,  // 2 parts, (n_batch, n_seq, n_head, n_half) each, rows q_head_stride apart
    const float *cos,   // (n_seq, n_half)
    const float *sin,   // (n_seq, n_half)
    bfloat16 *out,      // 2 parts, (n_batch, n_head, n_seq, n_half) each, rows out_seq_stride apart
    long n_batch,
    long n_head,
    long n_seq,
    long n_half,
    long q_head_stride,
    long q_offset,
    long out_seq_stride,
    long out_offset) {
#pragma omp parallel for collapse(3) if (n_batch * n_head * n_seq * n_half >= GRAIN)
  for (long batch = 0; batch < n_batch; ++batch) {
    for (long head = 0; head < n_head; ++head) {
      for (long seq = 0; seq < n_seq; ++seq) {
        const bfloat16 *q_row = q + ((batch * n_seq + seq) * n_head + head) * q_head_stride;
        const float *cos_row = cos + seq * n_half;
        const float *sin_row = sin + seq * n_half;
        bfloat16 *out_row = out + ((batch * n_head + head) * n_seq + seq) * out_seq_stride;

#pragma omp simd
        for (long half = 0; half < n_half; ++half) {
          const float element = q_row[half];
          const float second_element = q_row[half + q_offset];
          const float third_element = cos_row[half];
          const float fourth_element = sin_row[half];

          out_row[half] = element * third_element - second_element * fourth_element;
          out_row[half + out_offset] = second_element * third_element + element * fourth_element;
        }
      }
    }
  }
}
