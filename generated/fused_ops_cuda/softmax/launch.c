// Launches of Triton kernels: what FastLaunch in runtime.py does for a call that it has seen before.
//
// Such a call is known by its Key: the device, how addresses are aligned, every number, and the options with their
// names. The first call with a key is Python's, `slow`: it checks, compiles and launches, and tells what launched it.
// Then the key's calls go from here to Triton's launcher. Whatever is unusual is Python's each time: tensors that are
// not torch's own, profilers that listen, another device, and callers that are no file of the unit, whose tensors are
// to be checked.

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tensors.h"

enum { MOST_TENSORS = 64, MOST_WORDS = 160, MOST_ENTRIES = 1024, N_BUCKETS = 16, ALIGNED = 16 };

static const Exchange *exchange;
static PyObject *tensor_class, *parameter_class;
static PyObject *hooks, *current_device;  // triton.knobs.runtime; None where there is one device
static PyObject *word_package, *word_hook, *word_calls;

typedef struct {
  Py_ssize_t n_words;
  int64_t words[MOST_WORDS];
} Key;

// What launches the calls of one key.
typedef struct Entry {
  struct Entry *next;
  Key *key;
  PyObject *names;                     // of the options: while they are here, their addresses are theirs
  PyObject *run, *before, *constants;  // Triton's launcher; what it is given before the kernel's arguments, and after
  bool takes_tuple;                     // of the kernel's arguments
} Entry;

// One kernel[grid].
typedef struct {
  PyObject *slow, *package, *grid;
  Py_ssize_t n_tensors, n_entries;
  Entry *buckets[N_BUCKETS];
} Launch;

// ---- Keys ----

static bool has_number(Key *key, PyObject *number) {
  int64_t kind, value;
  if (PyBool_Check(number)) {
    kind = 1, value = number == Py_True;
  } else if (PyLong_CheckExact(number)) {
    int overflow;
    kind = 2, value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow) return false;
  } else if (PyFloat_CheckExact(number)) {
    const double given = PyFloat_AS_DOUBLE(number);
    kind = 3;
    memcpy(&value, &given, sizeof value);
  } else {
    return false;
  }
  if (key->n_words + 3 > MOST_WORDS) return false;  // and a name
  key->words[key->n_words++] = kind;
  key->words[key->n_words++] = value;
  return true;
}

// Reads a call into its key; false for one that is unusual.
static bool has_key(
    const Launch *launch, PyObject *const *args, Py_ssize_t n_args, PyObject *names, Key *key, uintptr_t *addresses,
    int32_t *device) {
  const Py_ssize_t n_names = names == NULL ? 0 : PyTuple_GET_SIZE(names), n_tensors = launch->n_tensors;
  if (n_args < n_tensors) return false;
  key->n_words = 2 + n_tensors / 8;
  memset(key->words, 0, sizeof(int64_t) * (size_t)key->n_words);
  for (Py_ssize_t i = 0; i < n_tensors; ++i) {
    PyTypeObject *type = Py_TYPE(args[i]);
    if (type != (PyTypeObject *)tensor_class && type != (PyTypeObject *)parameter_class) return false;
    Tensor tensor;
    if (exchange->read(args[i], &tensor) != 0 || tensor.device_type != ON_CUDA) return false;
    addresses[i] = (uintptr_t)tensor.data;
    key->words[1 + i / 8] |= (int64_t)(addresses[i] % ALIGNED) << (4 * (i % 8));
    if (i == 0) *device = tensor.device;
  }
  key->words[0] = *device;
  for (Py_ssize_t i = n_tensors; i < n_args + n_names; ++i) {
    if (i >= n_args) key->words[key->n_words++] = (int64_t)(intptr_t)PyTuple_GET_ITEM(names, i - n_args);
    if (!has_number(key, args[i])) return false;
  }
  return true;
}

static Entry **bucket_of(Launch *launch, const Key *key) {
  uint64_t hash = 0;
  for (Py_ssize_t i = 0; i < key->n_words; ++i) hash += (uint64_t)key->words[i] * (0x9E3779B97F4A7C15u * (2 * i + 1));
  return &launch->buckets[hash >> 32 & (N_BUCKETS - 1)];
}

static Entry *find(Entry *entry, const Key *key) {
  for (; entry != NULL; entry = entry->next) {
    const Key *its = entry->key;
    const size_t size = sizeof(int64_t) * (size_t)key->n_words;
    if (its->n_words == key->n_words && memcmp(its->words, key->words, size) == 0) return entry;
  }
  return NULL;
}

// ---- Entries ----

static void forget(Entry *entry) {
  Py_XDECREF(entry->names);
  Py_XDECREF(entry->run);
  Py_XDECREF(entry->before);
  Py_XDECREF(entry->constants);
  free(entry->key);
  free(entry);
}

// Keeps what Python tells of a call that it launched: (run, before, constants, takes_tuple), or None.
static bool remember(Launch *launch, const Key *key, PyObject *names, PyObject *told) {
  PyObject *run, *before, *constants;
  int takes_tuple;
  Entry **bucket = bucket_of(launch, key);
  if (told == Py_None || launch->n_entries >= MOST_ENTRIES || find(*bucket, key) != NULL) return true;
  if (!PyArg_ParseTuple(
          told, "OO!O!p", &run, &PyTuple_Type, &before, &PyTuple_Type, &constants, &takes_tuple)) {
    return false;
  }
  Entry *made = calloc(1, sizeof(Entry));
  const size_t size = offsetof(Key, words) + sizeof(int64_t) * (size_t)key->n_words;
  if (made == NULL || (made->key = malloc(size)) == NULL) {
    free(made);
    return true;
  }
  memcpy(made->key, key, size);
  made->names = Py_XNewRef(names), made->run = Py_NewRef(run), made->before = Py_NewRef(before);
  made->constants = Py_NewRef(constants), made->takes_tuple = takes_tuple;
  made->next = *bucket;
  *bucket = made, ++launch->n_entries;
  return true;
}

// ---- A call ----

// Whether a file of the unit called the kernel's host function, which calls this.
static bool is_called_by_unit(const Launch *launch) {
  PyFrameObject *host_function = PyEval_GetFrame();
  PyFrameObject *caller = host_function == NULL ? NULL : PyFrame_GetBack(host_function);
  if (caller == NULL) return false;
  PyObject *globals = PyFrame_GetGlobals(caller);
  PyObject *package = globals == NULL ? NULL : PyDict_GetItemWithError(globals, word_package);
  const bool is_own = package != NULL && (package == launch->package ||
                                          PyObject_RichCompareBool(package, launch->package, Py_EQ) == 1);
  Py_XDECREF(globals);
  Py_DECREF(caller);
  return is_own;
}

// Whether no profiler listens, and the tensors' device is the current one.
static bool is_usual(int32_t device) {
  PyObject *hook = PyObject_GetAttr(hooks, word_hook);
  PyObject *calls = hook == NULL ? NULL : PyObject_GetAttr(hook, word_calls);
  const bool is_unheard = calls != NULL && PyObject_IsTrue(calls) == 0;
  Py_XDECREF(calls);
  Py_XDECREF(hook);
  if (!is_unheard || current_device == Py_None) return is_unheard;
  PyObject *current = PyObject_CallNoArgs(current_device);
  const bool is_here = current != NULL && PyLong_AsLong(current) == device;
  Py_XDECREF(current);
  return is_here;
}

// All that Triton's launcher takes: the grid, the stream, what comes before, addresses, numbers, constants.
static PyObject *arguments(
    const Launch *launch, const Entry *entry, PyObject *const *args, Py_ssize_t n_args, const uintptr_t *addresses,
    void *stream) {
  const Py_ssize_t n_before = PyTuple_GET_SIZE(entry->before), n_constants = PyTuple_GET_SIZE(entry->constants);
  const Py_ssize_t n_own = n_args + n_constants;
  PyObject *whole = PyTuple_New(4 + n_before + (entry->takes_tuple ? 1 : n_own));
  PyObject *own = whole == NULL ? NULL : entry->takes_tuple ? PyTuple_New(n_own) : whole;
  if (own == NULL) {
    Py_XDECREF(whole);
    return NULL;
  }
  for (Py_ssize_t i = 0; i < 3; ++i) PyTuple_SET_ITEM(whole, i, Py_NewRef(PyTuple_GET_ITEM(launch->grid, i)));
  PyTuple_SET_ITEM(whole, 3, PyLong_FromVoidPtr(stream));
  for (Py_ssize_t i = 0; i < n_before; ++i) {
    PyTuple_SET_ITEM(whole, 4 + i, Py_NewRef(PyTuple_GET_ITEM(entry->before, i)));
  }
  Py_ssize_t at = entry->takes_tuple ? 0 : 4 + n_before;
  for (Py_ssize_t i = 0; i < launch->n_tensors; ++i) {
    PyTuple_SET_ITEM(own, at++, PyLong_FromUnsignedLongLong(addresses[i]));
  }
  for (Py_ssize_t i = launch->n_tensors; i < n_args; ++i) PyTuple_SET_ITEM(own, at++, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; i < n_constants; ++i) {
    PyTuple_SET_ITEM(own, at++, Py_NewRef(PyTuple_GET_ITEM(entry->constants, i)));
  }
  if (entry->takes_tuple) PyTuple_SET_ITEM(whole, 4 + n_before, own);
  return whole;
}

static void destroy(PyObject *capsule) {
  Launch *launch = PyCapsule_GetPointer(capsule, NULL);
  for (int i = 0; i < N_BUCKETS; ++i) {
    for (Entry *entry = launch->buckets[i], *next; entry != NULL; entry = next) {
      next = entry->next;
      forget(entry);
    }
  }
  Py_DECREF(launch->slow);
  Py_DECREF(launch->package);
  Py_DECREF(launch->grid);
  free(launch);
}

// kernel[grid](*tensors, *numbers, **options)
static PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
  Launch *launch = PyCapsule_GetPointer(self, NULL);
  Key key;
  uintptr_t addresses[MOST_TENSORS];
  int32_t device = 0;
  void *stream;
  const bool is_known = has_key(launch, args, n_args, names, &key, addresses, &device);
  Entry *entry = is_known ? find(*bucket_of(launch, &key), &key) : NULL;
  if (entry != NULL && is_called_by_unit(launch) && is_usual(device) &&
      exchange->current_stream(ON_CUDA, device, &stream) == 0) {
    PyObject *given = arguments(launch, entry, args, n_args, addresses, stream);
    PyObject *result = given == NULL ? NULL : PyObject_Call(entry->run, given, NULL);
    Py_XDECREF(given);
    return result;
  }
  PyErr_Clear();
  PyObject *told = PyObject_Vectorcall(launch->slow, args, (size_t)n_args, names);
  if (told == NULL) return NULL;
  const bool is_kept = !is_known || remember(launch, &key, names, told);
  Py_DECREF(told);
  return is_kept ? Py_NewRef(Py_None) : NULL;
}

// ---- The way in ----

static PyMethodDef method = {"launch", (PyCFunction)(void *)call, METH_FASTCALL | METH_KEYWORDS, NULL};

// launch(slow, package, grid, n_tensors)
static PyObject *make(PyObject *self, PyObject *given) {
  (void)self;
  Launch one = {0};
  if (!PyArg_ParseTuple(given, "OOO!n", &one.slow, &one.package, &PyTuple_Type, &one.grid, &one.n_tensors)) return NULL;
  if (one.n_tensors < 1 || one.n_tensors > MOST_TENSORS || PyTuple_GET_SIZE(one.grid) != 3) {
    PyErr_SetString(PyExc_ValueError, "a grid has three sides, and a kernel some tensors");
    return NULL;
  }
  Launch *made = malloc(sizeof(Launch));
  if (made == NULL) return PyErr_NoMemory();
  *made = one;
  Py_INCREF(made->slow);
  Py_INCREF(made->package);
  Py_INCREF(made->grid);
  PyObject *capsule = PyCapsule_New(made, NULL, destroy);
  if (capsule == NULL) return NULL;
  PyObject *function = PyCFunction_New(&method, capsule);
  Py_DECREF(capsule);
  return function;
}

static PyMethodDef way_in = {"launcher", make, METH_VARARGS, NULL};

// What makes launches, for what runtime.py knows of torch and Triton; NULL, with an exception, where it cannot be had.
PyObject *longhand_launch(PyObject *known) {
  if (!PyArg_ParseTuple(known, "OOOO", &tensor_class, &parameter_class, &hooks, &current_device)) return NULL;
  if ((exchange = exchange_of(tensor_class)) == NULL) return NULL;
  word_package = PyUnicode_InternFromString("__package__");
  word_hook = PyUnicode_InternFromString("launch_enter_hook");
  word_calls = PyUnicode_InternFromString("calls");
  Py_INCREF(known);  // for good, and with it all that was borrowed
  return PyCFunction_New(&way_in, NULL);
}
