// What cublasLt.h and cuda.h declare of the functions that blas.c calls: those headers need not be installed. The
// libraries are those that torch has loaded.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { COMPUTE_32F = 68, COMPUTE_32F_FAST_TF32 = 77 };
enum { R_32F = 0, R_16F = 2, R_16BF = 14 };                                           // cudaDataType
enum { TRANSPOSE_A = 3, TRANSPOSE_B = 4, EPILOGUE = 7, BIAS_POINTER = 8 };            // of an operation
enum { BATCH_COUNT = 5, BATCH_STEP = 6 };                                             // of a layout
enum { MOST_WORKSPACE = 1, ALIGNMENT_A = 5, ALIGNMENT_B, ALIGNMENT_C, ALIGNMENT_D };  // of preferences
enum { ADD_BIAS = 4 };                                                                // an epilogue

typedef struct {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
} Heuristic;

typedef int (*SetAttribute)(void *what, int attribute, const void *value, size_t size);

typedef struct {
  int (*create)(void **handle);
  int (*create_operation)(void **operation, int compute_type, int scale_type);
  SetAttribute set_of_operation;
  int (*destroy_operation)(void *operation);
  int (*create_layout)(void **layout, int type, uint64_t rows, uint64_t cols, int64_t leading);
  SetAttribute set_of_layout;
  int (*destroy_layout)(void *layout);
  int (*create_preferences)(void **preferences);
  SetAttribute set_of_preferences;
  int (*destroy_preferences)(void *preferences);
  int (*choose)(
      void *handle, void *operation, void *a, void *b, void *c, void *d, void *preferences, int n_wanted,
      Heuristic *results, int *n_found);
  int (*multiply)(
      void *handle, void *operation, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
      const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const void *algorithm,
      void *workspace, size_t workspace_bytes, void *stream);
  int (*is_capturing)(void *stream, int *status);  // cuStreamIsCapturing
} Libraries;

static Libraries cublas;

static bool is_found(void *library, const char *name, void *place) {
  void *found = dlsym(library, name);
  memcpy(place, &found, sizeof found);
  if (found == NULL) PyErr_Format(PyExc_RuntimeError, "there is no %s", name);
  return found != NULL;
}

// Finds all of them, or none.
static bool are_found(const char *cublas_path, const char *driver_path) {
  Libraries found;
  void *library = dlopen(cublas_path, RTLD_NOW), *driver = library == NULL ? NULL : dlopen(driver_path, RTLD_NOW);
  if (driver == NULL) {
    PyErr_Format(PyExc_RuntimeError, "%s", dlerror());
    return false;
  }
  const bool are_all =
      is_found(library, "cublasLtCreate", &found.create) &&
      is_found(library, "cublasLtMatmulDescCreate", &found.create_operation) &&
      is_found(library, "cublasLtMatmulDescSetAttribute", &found.set_of_operation) &&
      is_found(library, "cublasLtMatmulDescDestroy", &found.destroy_operation) &&
      is_found(library, "cublasLtMatrixLayoutCreate", &found.create_layout) &&
      is_found(library, "cublasLtMatrixLayoutSetAttribute", &found.set_of_layout) &&
      is_found(library, "cublasLtMatrixLayoutDestroy", &found.destroy_layout) &&
      is_found(library, "cublasLtMatmulPreferenceCreate", &found.create_preferences) &&
      is_found(library, "cublasLtMatmulPreferenceSetAttribute", &found.set_of_preferences) &&
      is_found(library, "cublasLtMatmulPreferenceDestroy", &found.destroy_preferences) &&
      is_found(library, "cublasLtMatmulAlgoGetHeuristic", &found.choose) &&
      is_found(library, "cublasLtMatmul", &found.multiply) &&
      is_found(driver, "cuStreamIsCapturing", &found.is_capturing);
  if (are_all) cublas = found;
  return are_all;
}

// ATen makes a handle of cuBLAS in a thread's first product, which it cannot while a CUDA graph is recorded: without
// this, whoever records a step of a warm unit would be in that thread's first one (pytorch#99397).
static bool aten_is_ready(int64_t device) {
  static _Thread_local uint64_t devices;  // a bit for each
  const uint64_t bit = (uint64_t)1 << device;
  const bool was_asked = (devices & bit) != 0;
  devices |= bit;
  return was_asked;
}
