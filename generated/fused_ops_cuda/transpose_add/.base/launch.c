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

#include <structmember.h>  // after Python.h

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

// One kernel[grid]: an object that Python's collector looks into, for `slow` knows the kernel, which keeps this.
typedef struct {
  PyObject_HEAD
  vectorcallfunc call;
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
  if (told == Py_None) return true;
  if (!PyArg_ParseTuple(
          told, "OO!O!p", &run, &PyTuple_Type, &before, &PyTuple_Type, &constants, &takes_tuple)) {
    return false;
  }
  if (launch->n_entries >= MOST_ENTRIES || find(*bucket, key) != NULL) return true;
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
  bool is_own = package == launch->package;
  if (!is_own && package != NULL && PyUnicode_CheckExact(package) && PyUnicode_CheckExact(launch->package)) {
    is_own = PyUnicode_Compare(package, launch->package) == 0;  // which runs nothing of others'
  }
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

// Puts a new reference into a tuple; false where there is none.
static bool put(PyObject *tuple, Py_ssize_t *at, PyObject *made) {
  if (made != NULL) PyTuple_SET_ITEM(tuple, (*at)++, made);
  return made != NULL;
}

static void put_all(PyObject *tuple, Py_ssize_t *at, PyObject *const *objects, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) put(tuple, at, Py_NewRef(objects[i]));
}

// All that Triton's launcher takes: the grid, the stream, what comes before, addresses, numbers, constants.
static PyObject *arguments(
    const Launch *launch, const Entry *entry, PyObject *const *args, Py_ssize_t n_args, const uintptr_t *addresses,
    void *stream) {
  const Py_ssize_t n_before = PyTuple_GET_SIZE(entry->before), n_constants = PyTuple_GET_SIZE(entry->constants);
  const Py_ssize_t n_tensors = launch->n_tensors, n_own = n_args + n_constants;
  PyObject *whole = PyTuple_New(4 + n_before + (entry->takes_tuple ? 1 : n_own)), *own = whole;
  if (whole == NULL) return NULL;
  Py_ssize_t at = 0, at_own = 0;
  put_all(whole, &at, &PyTuple_GET_ITEM(launch->grid, 0), 3);
  bool are_put = put(whole, &at, PyLong_FromVoidPtr(stream));
  if (are_put) put_all(whole, &at, &PyTuple_GET_ITEM(entry->before, 0), n_before);
  if (are_put && entry->takes_tuple) are_put = put(whole, &at, own = PyTuple_New(n_own));
  if (!entry->takes_tuple) at_own = at;
  for (Py_ssize_t i = 0; are_put && i < n_tensors; ++i) {
    are_put = put(own, &at_own, PyLong_FromUnsignedLongLong(addresses[i]));
  }
  if (are_put) {
    put_all(own, &at_own, args + n_tensors, n_args - n_tensors);
    put_all(own, &at_own, &PyTuple_GET_ITEM(entry->constants, 0), n_constants);
  } else {
    Py_CLEAR(whole);
  }
  return whole;
}

// kernel[grid](*tensors, *numbers, **options)
static PyObject *call(PyObject *self, PyObject *const *args, size_t n_args_and_flag, PyObject *names) {
  Launch *launch = (Launch *)self;
  const Py_ssize_t n_args = PyVectorcall_NARGS(n_args_and_flag);
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
  PyObject *told = PyObject_Vectorcall(launch->slow, args, n_args_and_flag, names);
  if (told == NULL) return NULL;
  const bool is_kept = !is_known || remember(launch, &key, names, told);
  Py_DECREF(told);
  return is_kept ? Py_NewRef(Py_None) : NULL;
}

// ---- The way in ----

static int traverse(PyObject *self, visitproc visit, void *arg) {
  Launch *launch = (Launch *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(launch->slow);
  Py_VISIT(launch->package);
  Py_VISIT(launch->grid);
  for (int i = 0; i < N_BUCKETS; ++i) {
    for (Entry *entry = launch->buckets[i]; entry != NULL; entry = entry->next) {
      Py_VISIT(entry->names);
      Py_VISIT(entry->run);
      Py_VISIT(entry->before);
      Py_VISIT(entry->constants);
    }
  }
  return 0;
}

// No tp_clear: `slow` is a function, and tuples cannot know of this, so that the collector breaks each circle elsewhere.
static void destroy(PyObject *self) {
  Launch *launch = (Launch *)self;
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  for (int i = 0; i < N_BUCKETS; ++i) {
    for (Entry *entry = launch->buckets[i], *next; entry != NULL; entry = next) {
      next = entry->next;
      forget(entry);
    }
  }
  Py_XDECREF(launch->slow);
  Py_XDECREF(launch->package);
  Py_XDECREF(launch->grid);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launch, call), READONLY, NULL}, {NULL, 0, 0, 0, NULL}};
static PyType_Slot slots[] = {
    {Py_tp_call, PyVectorcall_Call}, {Py_tp_traverse, traverse}, {Py_tp_dealloc, destroy},
    {Py_tp_members, members},        {0, NULL}};
static PyType_Spec spec = {
    "longhand.Launch", sizeof(Launch), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
static PyTypeObject *launches;

// launch(slow, package, grid, n_tensors)
static PyObject *make(PyObject *self, PyObject *given) {
  (void)self;
  PyObject *slow, *package, *grid;
  Py_ssize_t n_tensors;
  if (!PyArg_ParseTuple(given, "OOO!n", &slow, &package, &PyTuple_Type, &grid, &n_tensors)) return NULL;
  if (n_tensors < 1 || n_tensors > MOST_TENSORS || PyTuple_GET_SIZE(grid) != 3) {
    PyErr_SetString(PyExc_ValueError, "a grid has three sides, and a kernel some tensors");
    return NULL;
  }
  Launch *made = PyObject_GC_New(Launch, launches);
  if (made == NULL) return NULL;
  made->call = call, made->n_tensors = n_tensors, made->n_entries = 0;
  made->slow = Py_NewRef(slow), made->package = Py_NewRef(package), made->grid = Py_NewRef(grid);
  memset(made->buckets, 0, sizeof made->buckets);
  PyObject_GC_Track(made);
  return (PyObject *)made;
}

static PyMethodDef way_in = {"launcher", make, METH_VARARGS, NULL};

// What makes launches, for what runtime.py knows of torch and Triton; NULL, with an exception, where it cannot be had.
// Units of one process share it: what an earlier one told holds until all of this one's is read.
PyObject *longhand_launch(PyObject *known) {
  PyObject *tensors, *parameters, *of_triton, *device;
  if (!PyArg_ParseTuple(known, "OOOO", &tensors, &parameters, &of_triton, &device)) return NULL;
  const Exchange *found = exchange_of(tensors);
  if (found == NULL) return NULL;
  if (word_package == NULL) word_package = PyUnicode_InternFromString("__package__");
  if (word_hook == NULL) word_hook = PyUnicode_InternFromString("launch_enter_hook");
  if (word_calls == NULL) word_calls = PyUnicode_InternFromString("calls");
  if (launches == NULL) launches = (PyTypeObject *)PyType_FromSpec(&spec);
  if (word_package == NULL || word_hook == NULL || word_calls == NULL || launches == NULL) return NULL;
  Py_INCREF(known);  // for good, and with it all that is borrowed here: calls of other units may be running
  exchange = found, tensor_class = tensors, parameter_class = parameters, hooks = of_triton, current_device = device;
  return PyCFunction_New(&way_in, NULL);
}
