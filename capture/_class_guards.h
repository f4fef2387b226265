/* Guards on what classes and functions say, for capture/_frame_eval.c.
 *
 * CPython numbers each version of a class, its bases included: while the numbers are the same, nothing that was
 * looked up in the class has changed. A function's code may be replaced: it is compared by identity.
 */

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The number of a class's version, its bases included; 0 if CPython has given it none. */
static unsigned int version_of(PyObject *object) {
  PyTypeObject *type = (PyTypeObject *)object;
#if PY_VERSION_HEX >= 0x030D0000
  return type->tp_version_tag; /* 0 where it has none: the flag is no longer used */
#endif
  return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

static int all_types(PyObject *types) {
  if (!PyTuple_Check(types)) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); i++) {
    if (!PyType_Check(PyTuple_GET_ITEM(types, i))) return 0;
  }
  return 1;
}

PyDoc_STRVAR(type_tags_doc, "type_tags(types, /)\n--\n\nThe versions of a tuple of classes, as bytes for same_tags().");

static PyObject *type_tags(PyObject *module, PyObject *types) {
  (void)module;
  if (!all_types(types)) return PyErr_Format(PyExc_TypeError, "type_tags() needs a tuple of classes");
  const Py_ssize_t n = PyTuple_GET_SIZE(types);
  PyObject *result = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof(unsigned int));
  if (result == NULL) return NULL;
  for (Py_ssize_t i = 0; i < n; i++) {
    const unsigned int version = version_of(PyTuple_GET_ITEM(types, i));
    memcpy(PyBytes_AS_STRING(result) + i * (Py_ssize_t)sizeof(version), &version, sizeof(version));
  }
  return result;
}

PyDoc_STRVAR(same_tags_doc,
             "same_tags(types, tags, /)\n--\n\n"
             "Whether no class was changed since `tags` (a bytearray) was taken. False where that is not known.");

static PyObject *same_tags(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
  (void)module;
  if (n_args != 2 || !all_types(args[0]) || !PyByteArray_Check(args[1])) {
    return PyErr_Format(PyExc_TypeError, "same_tags(types, tags)");
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(args[0]);
  if (PyByteArray_GET_SIZE(args[1]) != n * (Py_ssize_t)sizeof(unsigned int)) Py_RETURN_FALSE;
  const char *tags = PyByteArray_AS_STRING(args[1]);
  for (Py_ssize_t i = 0; i < n; i++) {
    const unsigned int version = version_of(PyTuple_GET_ITEM(args[0], i));
    if (version == 0 || memcmp(tags + i * (Py_ssize_t)sizeof(version), &version, sizeof(version)) != 0) {
      Py_RETURN_FALSE;
    }
  }
  Py_RETURN_TRUE;
}

PyDoc_STRVAR(same_code_doc,
             "same_code(functions, codes, /)\n--\n\nWhether each function of a tuple still has its code.");

static PyObject *same_code(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
  (void)module;
  if (n_args != 2 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1]) ||
      PyTuple_GET_SIZE(args[0]) != PyTuple_GET_SIZE(args[1])) {
    return PyErr_Format(PyExc_TypeError, "same_code(functions, codes)");
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[0]); i++) {
    PyObject *function = PyTuple_GET_ITEM(args[0], i);
    if (!PyFunction_Check(function) || PyFunction_GET_CODE(function) != PyTuple_GET_ITEM(args[1], i)) {
      Py_RETURN_FALSE;
    }
  }
  Py_RETURN_TRUE;
}
