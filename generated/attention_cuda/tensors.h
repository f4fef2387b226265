// Tensors as DLPack tells of them (dlpack.h, versions 1.x), through torch.Tensor.__dlpack_c_exchange_api__.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef struct {
  void *data;
  int32_t device_type, device, n_dims;
  uint8_t kind, bits;
  uint16_t lanes;
  int64_t *sizes, *strides;
  uint64_t offset;
} Tensor;

typedef struct Exchange {
  uint32_t major_version, minor_version;
  const struct Exchange *earlier;
  void *others[3];
  int (*read)(void *object, Tensor *result);
  int (*current_stream)(int32_t device_type, int32_t device, void **result);
} Exchange;

enum { ON_CUDA = 2 };
enum { FLOATS = 2, BFLOATS = 4 };  // kinds of elements

// What torch gives for its tensors; NULL, with an exception, where it is of another version.
static const Exchange *exchange_of(PyObject *tensor_class) {
  PyObject *capsule = PyObject_GetAttrString(tensor_class, "__dlpack_c_exchange_api__");
  if (capsule == NULL) return NULL;
  const Exchange *found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_DECREF(capsule);  // torch keeps it
  while (found != NULL && found->major_version > 1) found = found->earlier;
  if (found == NULL || found->read == NULL || found->current_stream == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "this torch tells nothing of its tensors through DLPack 1.x");
    return NULL;
  }
  return found;
}
