// In place of cublasLt, of the CUDA driver and of torch's account of its tensors: products on the CPU, and what was
// asked for.
//
// Tensors of the CPU count as some on a GPU. A product is computed from the descriptors alone, as cuBLAS would do it.

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tensors.h"

typedef struct {
  int compute_type;
  int transposed[2];
  int epilogue;
  const void *bias;
} Operation;
typedef struct {
  int type, batch;
  uint64_t rows, cols;
  int64_t leading, step;
} Layout;
typedef struct {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
} Heuristic;
typedef struct {
  int64_t workspace_limit;
  int32_t alignments[4];
} Preferences;

// What tests set, and what they read.
int64_t fails_in, microseconds, workspace_wanted, is_capturing, pretended_device = 0, n_handles, n_chosen, n_multiplied;
int64_t n_alive;  // operations, layouts and preferences that were made and not destroyed
int64_t last_limit, last_alignments[4], last_compute_type, last_stream, last_workspace, last_workspace_bytes;
enum { CREATE = 1, CHOOSE, MULTIPLY, NO_ALGORITHM, STREAM, OPERATION, LAYOUT, PREFERENCES, SETTING };

static double read_at(const void *data, int type, int64_t at) {
  if (type == 0) return ((const float *)data)[at];
  uint32_t bits = (uint32_t)((const uint16_t *)data)[at] << 16;  // bfloat16
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static void write_at(void *data, int type, int64_t at, float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (type == 0) ((float *)data)[at] = value;
  else ((uint16_t *)data)[at] = (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static int made(void **result, size_t size, bool fails) {
  *result = NULL;
  if (fails) return 3;
  *result = calloc(1, size);
  ++n_alive;
  return 0;
}

static int destroyed(void *what) {
  free(what);
  --n_alive;
  return 0;
}

int cublasLtCreate(void **handle) {
  *handle = (void *)-1;  // of no use where it fails
  if (fails_in == CREATE) return 1;
  *handle = &n_handles;
  ++n_handles;
  return 0;
}

int cublasLtMatmulDescCreate(void **result, int compute_type, int scale_type) {
  if (made(result, sizeof(Operation), fails_in == OPERATION || scale_type != 0)) return 1;
  ((Operation *)*result)->compute_type = compute_type;
  return 0;
}

int cublasLtMatmulDescDestroy(void *what) { return destroyed(what); }

int cublasLtMatmulDescSetAttribute(void *what, int attribute, const void *value, size_t size) {
  Operation *one = what;
  if (fails_in == SETTING) return 1;
  if (attribute == 3 || attribute == 4) one->transposed[attribute - 3] = *(const int32_t *)value;
  else if (attribute == 7) one->epilogue = *(const int32_t *)value;
  else if (attribute == 8) one->bias = *(void *const *)value;
  else return 1;
  return size != (attribute == 8 ? 8 : 4);
}

int cublasLtMatrixLayoutCreate(void **result, int type, uint64_t rows, uint64_t cols, int64_t leading) {
  if (made(result, sizeof(Layout), fails_in == LAYOUT || leading < (int64_t)rows)) return 1;
  *(Layout *)*result = (Layout){type, 1, rows, cols, leading, 0};
  return 0;
}

int cublasLtMatrixLayoutDestroy(void *what) { return destroyed(what); }

int cublasLtMatrixLayoutSetAttribute(void *what, int attribute, const void *value, size_t size) {
  Layout *one = what;
  if (attribute == 5) one->batch = *(const int32_t *)value;
  else if (attribute == 6) one->step = *(const int64_t *)value;
  else return 1;
  return size != (attribute == 5 ? 4 : 8);
}

int cublasLtMatmulPreferenceCreate(void **result) {
  return made(result, sizeof(Preferences), fails_in == PREFERENCES);
}

int cublasLtMatmulPreferenceDestroy(void *what) { return destroyed(what); }

int cublasLtMatmulPreferenceSetAttribute(void *what, int attribute, const void *value, size_t size) {
  Preferences *one = what;
  if (attribute == 1) one->workspace_limit = *(const int64_t *)value;
  else if (attribute >= 5 && attribute <= 8) one->alignments[attribute - 5] = *(const int32_t *)value;
  else return 1;
  return size != (attribute == 1 ? 8 : 4);
}

int cublasLtMatmulAlgoGetHeuristic(
    void *handle, void *operation, void *a, void *b, void *c, void *d, void *preferences, int n_wanted,
    Heuristic *results, int *n_found) {
  const Preferences *wanted = preferences;
  ++n_chosen;
  last_limit = wanted->workspace_limit;
  for (int i = 0; i < 4; ++i) last_alignments[i] = wanted->alignments[i];
  last_compute_type = ((Operation *)operation)->compute_type;
  *results = (Heuristic){.algorithm = {42}, .workspace_bytes = workspace_wanted};
  *n_found = fails_in == NO_ALGORITHM ? 0 : 1;
  return fails_in == CHOOSE || n_wanted != 1 || handle != &n_handles || !a || !b || c != d;
}

int cublasLtMatmul(
    void *handle, void *operation, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
    const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const void *algorithm, void *workspace,
    size_t workspace_bytes, void *stream) {
  const Operation *how = operation;
  const Layout *of_a = a_layout, *of_b = b_layout, *of_d = d_layout;
  last_stream = (int64_t)stream, last_workspace = (int64_t)workspace, last_workspace_bytes = workspace_bytes;
  if (fails_in == MULTIPLY) return 15;
  if (microseconds) usleep((useconds_t)microseconds);
  if (handle != &n_handles || *(const float *)alpha != 1 || *(const float *)beta != 0 || c != d || c_layout != d_layout) return 1;
  if (*(const uint64_t *)algorithm != 42 || (workspace_bytes && !workspace)) return 1;
  const int64_t rows = how->transposed[0] ? of_a->cols : of_a->rows, inner = how->transposed[0] ? of_a->rows : of_a->cols;
  const int64_t cols = how->transposed[1] ? of_b->rows : of_b->cols;
  if (inner != (int64_t)(how->transposed[1] ? of_b->cols : of_b->rows)) return 2;
  if (rows != (int64_t)of_d->rows || cols != (int64_t)of_d->cols) return 3;
  if (of_a->batch != of_d->batch || of_b->batch != of_d->batch) return 4;
  for (int64_t batch = 0; batch < of_d->batch; ++batch) {
    for (int64_t col = 0; col < cols; ++col) {
      for (int64_t row = 0; row < rows; ++row) {
        double sum = how->epilogue == 4 ? read_at(how->bias, of_d->type, row) : 0;
        for (int64_t k = 0; k < inner; ++k) {
          const int64_t at_a = how->transposed[0] ? k + row * of_a->leading : row + k * of_a->leading;
          const int64_t at_b = how->transposed[1] ? col + k * of_b->leading : k + col * of_b->leading;
          sum += read_at(a, of_a->type, at_a + batch * of_a->step) * read_at(b, of_b->type, at_b + batch * of_b->step);
        }
        write_at(d, of_d->type, row + col * of_d->leading + batch * of_d->step, (float)sum);
      }
    }
  }
  ++n_multiplied;
  return 0;
}

int cuStreamIsCapturing(void *stream, int *status) {
  (void)stream;
  *status = (int)is_capturing;
  return fails_in == STREAM;
}

static const Exchange *torchs;
static Exchange pretended;

static int read_tensor(void *object, Tensor *result) {
  const int failed = torchs->read(object, result);
  if (!failed && result->device_type == 1) result->device_type = ON_CUDA, result->device = (int32_t)pretended_device;
  return failed;
}

static int current_stream(int32_t device_type, int32_t device, void **result) {
  *result = (void *)(intptr_t)(1000 + device);
  return device_type != ON_CUDA;
}

// A capsule in which tensors of the CPU are some on a GPU.
PyObject *pretended_exchange(PyObject *tensor_class) {
  torchs = exchange_of(tensor_class);
  if (torchs == NULL) return NULL;
  pretended = *torchs;
  pretended.read = read_tensor, pretended.current_stream = current_stream;
  return PyCapsule_New(&pretended, "dlpack_exchange_api", NULL);
}
