// Which matrices a call of a product means, and how cuBLAS is told of them.
#pragma once

#include "cublas.h"

enum { LINEAR, MM, BMM, ADDMM, N_FUNCTIONS };
enum { A, B, BIAS, N_OPERANDS };
enum { MOST_DIMS = 4 };

// A kind of call.
typedef struct {
  int64_t function, device, kind, bits, is_tf32;
  int64_t alignments[N_OPERANDS], n_dims[N_OPERANDS];
  int64_t sizes[N_OPERANDS][MOST_DIMS], strides[N_OPERANDS][MOST_DIMS];
} Key;

// One of the matrices, or of a batch of them, as a person counts: element (i, j) is at i * row_step + j * col_step.
typedef struct {
  int64_t rows, cols, row_step, col_step, batch, batch_step;
} Matrix;

static Matrix matrix_of(const Key *key, int which, bool is_transposed) {
  const int n_dims = (int)key->n_dims[which];
  const int64_t *sizes = key->sizes[which], *strides = key->strides[which];
  const int row = is_transposed ? n_dims - 1 : n_dims - 2, col = is_transposed ? n_dims - 2 : n_dims - 1;
  Matrix made = {sizes[row], sizes[col], strides[row], strides[col], 1, 0};
  if (n_dims == 3) made.batch = sizes[0], made.batch_step = strides[0];
  return made;
}

// The rows of all of a contiguous tensor's matrices, as one.
static bool is_flattened(const Key *key, Matrix *made) {
  int64_t step = 1;
  for (int dim = (int)key->n_dims[A] - 1; dim >= 0; --dim) {
    if (key->sizes[A][dim] != 1 && key->strides[A][dim] != step) return false;
    step *= key->sizes[A][dim];  // none is 0: such a tensor has no address, and no key
  }
  if (made->cols == 0) return false;
  *made = (Matrix){step / made->cols, made->cols, made->cols, 1, 1, 0};
  return true;
}

// The factors of a product that cuBLAS is asked for; false for what ATen treats in some way of its own, or refuses.
static bool are_factors(const Key *key, Matrix *a, Matrix *b) {
  const int n_dims = key->function == BMM ? 3 : 2;
  if (key->n_dims[B] != n_dims || key->n_dims[A] < 2) return false;
  *a = matrix_of(key, A, false), *b = matrix_of(key, B, key->function == LINEAR);
  if (key->n_dims[A] != n_dims && (key->function != LINEAR || !is_flattened(key, a))) return false;
  if (a->rows == 1) a->row_step = a->cols;
  const int64_t most = INT32_MAX;
  if (a->cols != b->rows || a->batch != b->batch) return false;
  if (a->cols < 2 || b->cols < 2 || a->rows < 1 || a->batch < 1) return false;
  if (a->rows > most || a->cols > most || b->cols > most || a->batch > most) return false;
  if (a->batch > 1 && (a->batch_step < 1 || b->batch_step < 1)) return false;
  const bool has_bias = key->n_dims[BIAS] != 0;
  return !has_bias || (key->n_dims[BIAS] == 1 && key->sizes[BIAS][0] == b->cols && key->strides[BIAS][0] == 1);
}

// A matrix as cuBLAS counts, column by column: what lies in memory row by row is its transpose there.
static int lay_out(const Matrix *one, int type, void **layout, int32_t *is_transposed) {
  int failed;
  if (one->col_step == 1 && one->row_step >= one->cols) {
    *is_transposed = 0;
    failed = cublas.create_layout(layout, type, one->cols, one->rows, one->row_step);
  } else if (one->row_step == 1 && one->col_step >= one->rows) {
    *is_transposed = 1;
    failed = cublas.create_layout(layout, type, one->rows, one->cols, one->col_step);
  } else {
    return 1;
  }
  if (one->batch > 1 && !failed) {
    const int32_t count = (int32_t)one->batch;
    failed = cublas.set_of_layout(*layout, BATCH_COUNT, &count, sizeof count) ||
             cublas.set_of_layout(*layout, BATCH_STEP, &one->batch_step, sizeof one->batch_step);
  }
  return failed;
}
