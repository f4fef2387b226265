/* Paths that a call's guards walk, remembered from the last call for which they held; for capture/_frame_eval.c.
 *
 * A model's guards walk thousands of paths from the same few objects (`self.layers[3].norm.weight`), and next to
 * nothing on these paths ever changes. learn() walks them once, in C, and notes what it relied on:
 *
 *     that a dict is as it was    CPython gives each change of a dict a new number, which no other dict ever has;
 *                                 of the variables of a module, which change all the time, those that guards look at
 *     which dict is an object's `__dict__`, what its class is, and the number of its class's version
 *     what a cell, a list, a tuple or a function's field holds
 *
 * The guards are evaluated after that, and keep() is told that they held: what changes meanwhile has another number.
 * recall() compares all of that, in the same order, so that it only ever looks at objects that what it compared before
 * holds: as long as everything is as it was it returns what the paths lead to. Otherwise, None: the guards are
 * evaluated again, and what they lead to is learnt anew.
 *
 * No reference is kept to what the paths lead to: a compiled function must not keep a dropped model alive. Only
 * immutable values that a guard compares, and classes, are held, so that another cannot come to lie in their place.
 *
 * From Python 3.13 on a dict may change without a new number; there nothing is learnt.
 */

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "_class_guards.h"

typedef enum {
  STEP_CONSTANT,  /* key itself */
  STEP_DICT,      /* holder.__dict__ */
  STEP_ATTRIBUTE, /* holder.key, as its __dict__, its slots or else its class has it */
  STEP_INDEX,     /* holder[key] of a dict, a list or a tuple */
  STEP_CELL,      /* holder.cell_contents */
  STEP_FIELD,     /* holder.key of a function: its code, closure, defaults, globals */
  /* Facts: what guards look at in a value besides which object it is. Their value is the holder. */
  FACT_TYPE,      /* its class */
  FACT_SCALAR,    /* an immutable value's own value */
  FACT_KEY,       /* whether a dict has a key */
  FACT_CONTENT,   /* a dict's keys and values, a list's or tuple's length */
  FACT_ORDER,     /* a dict's keys in their order */
  FACT_LACKS,     /* that it has no attribute of that name */
} StepKind;

typedef struct Step {
  StepKind kind;
  Py_ssize_t holder; /* an earlier step, or a root */
  PyObject *key;     /* owned */
} Step;

typedef enum {
  SAME_VERSION,
  SAME_DICT,
  SAME_TYPE,
  SAME_TYPE_VERSION,
  SAME_IN_CELL,
  SAME_ITEM,
  SAME_SIZE,
  SAME_FIELD,
  SAME_SLOT,
  SAME_KEY
} CheckKind;

typedef struct Check {
  CheckKind kind;
  PyObject *object;   /* borrowed: what checks before this one make sure is there */
  PyObject *expected; /* borrowed, but for a class; NULL for a key that is not there */
  uint64_t number;    /* a version, an index, a size, a field, an offset, or the address of a step's key */
} Check;

typedef struct HeldPaths {
  PyObject_HEAD
  Py_ssize_t n_roots, n_steps, n_outputs, n_checks, room;
  Step *steps;
  Py_ssize_t *outputs;
  PyObject **values; /* borrowed: of the roots, then of the steps, while is_known */
  Check *checks;
  Py_ssize_t *table; /* of 2 * room places: where a check stands in the list, and 1, by its hash */
  PyObject *kept;    /* a list: classes, and immutable values that guards compare */
  int is_learnt, is_known;     /* noted, and guards held then */
  Py_ssize_t n_learnt, n_lost; /* how often, and how often in a row it was of no use */
} HeldPaths;

enum { MOST_LOST = 16 };

static uint64_t dict_version(PyObject *dict) {
#if PY_VERSION_HEX >= 0x030D0000
  (void)dict;
  return 0;
#else
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wdeprecated-declarations\"")
  return ((PyDictObject *)dict)->ma_version_tag;
  _Pragma("GCC diagnostic pop")
#endif
}

/* The object's `__dict__`, borrowed; NULL where it has none. */
static PyObject *dict_of(PyObject *object) {
  PyObject **place = _PyObject_GetDictPtr(object);
  return place == NULL ? NULL : *place;
}

static PyObject *field_of(PyObject *object, uint64_t field) {
  PyFunctionObject *function = (PyFunctionObject *)object;
  PyObject *const fields[] = {function->func_code, function->func_globals, function->func_closure,
                              function->func_defaults, function->func_kwdefaults};
  return fields[field] == NULL ? Py_None : fields[field];
}

/* What an object holds in a slot. */
static PyObject *slot_of(PyObject *object, uint64_t offset) { return *(PyObject **)((char *)object + offset); }

static int field_number(PyObject *name) {
  static const char *const names[] = {"__code__", "__globals__", "__closure__", "__defaults__", "__kwdefaults__"};
  for (int i = 0; i < 5; i++) {
    if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) return i;
  }
  return -1;
}

/* What a dict has under a string or a whole number, borrowed; NULL where it has nothing. */
static PyObject *found_in(PyObject *dict, PyObject *key) {
  PyObject *found = PyDict_GetItemWithError(dict, key);
  if (found == NULL) PyErr_Clear(); /* of another key's own comparison, which came to have the same hash */
  return found;
}

static int holds(const Check *check) {
  PyObject *object = check->object;
  switch (check->kind) {
    case SAME_VERSION: return dict_version(object) == check->number;
    case SAME_DICT: return dict_of(object) == check->expected;
    case SAME_TYPE: return (PyObject *)Py_TYPE(object) == check->expected;
    case SAME_TYPE_VERSION: return version_of(object) == check->number;
    case SAME_IN_CELL: return PyCell_GET(object) == check->expected;
    case SAME_SIZE: return (uint64_t)Py_SIZE(object) == check->number;
    case SAME_FIELD: return field_of(object, check->number) == check->expected;
    case SAME_SLOT: return slot_of(object, check->number) == check->expected;
    case SAME_KEY: return found_in(object, (PyObject *)(uintptr_t)check->number) == check->expected;
    case SAME_ITEM:
      if ((uint64_t)Py_SIZE(object) <= check->number) return 0;
      return (PyList_CheckExact(object) ? PyList_GET_ITEM(object, check->number)
                                        : PyTuple_GET_ITEM(object, check->number)) == check->expected;
  }
  return 0;
}

/* The place in the table of a check, or of where it would stand. */
static Py_ssize_t *place_of(HeldPaths *self, const Check *check) {
  const size_t mask = (size_t)(2 * self->room - 1);
  size_t hash = ((size_t)check->object >> 4) * 31 + (size_t)check->number * 7 + (size_t)check->kind;
  for (;; hash++) {
    Py_ssize_t *place = &self->table[hash & mask];
    if (*place == 0) return place;
    const Check *known = &self->checks[*place - 1];
    if (known->kind == check->kind && known->object == check->object && known->expected == check->expected &&
        known->number == check->number) {
      return place;
    }
  }
}

static int make_room(HeldPaths *self) {
  const Py_ssize_t room = self->room ? 2 * self->room : 64; /* a power of two */
  Check *checks = PyMem_Resize(self->checks, Check, room);
  if (checks != NULL) self->checks = checks;
  Py_ssize_t *table = checks == NULL ? NULL : PyMem_Calloc((size_t)(2 * room), sizeof(Py_ssize_t));
  if (table == NULL) return PyErr_NoMemory(), 0;
  PyMem_Free(self->table);
  self->table = table;
  self->room = room;
  for (Py_ssize_t i = 0; i < self->n_checks; i++) *place_of(self, &checks[i]) = i + 1;
  return 1;
}

/* Adds a check, once. */
static int note(HeldPaths *self, CheckKind kind, PyObject *object, PyObject *expected, uint64_t number) {
  if (self->n_checks == self->room && !make_room(self)) return 0;
  const Check check = {kind, object, expected, number};
  Py_ssize_t *place = place_of(self, &check);
  if (*place == 0) {
    self->checks[self->n_checks++] = check;
    *place = self->n_checks;
  }
  return 1;
}

static int note_version(HeldPaths *self, PyObject *dict) {
  const uint64_t version = dict_version(dict);
  return version != 0 && note(self, SAME_VERSION, dict, NULL, version);
}

static int note_type(HeldPaths *self, PyObject *object) {
  PyObject *type = (PyObject *)Py_TYPE(object);
  return PyList_Append(self->kept, type) == 0 && note(self, SAME_TYPE, object, type, 0);
}

static int note_type_version(HeldPaths *self, PyObject *type) {
  return version_of(type) != 0 && PyList_Append(self->kept, type) == 0 &&
         note(self, SAME_TYPE_VERSION, type, NULL, version_of(type));
}

/* Notes what a dict has under a key. Variables of modules change from call to call, beside those that guards look at. */
static int note_key(HeldPaths *self, PyObject *dict, PyObject *key, PyObject *found, int is_module) {
  if (!is_module) return note_version(self, dict);
  return note(self, SAME_KEY, dict, found, (uint64_t)(uintptr_t)key);
}

/* Whether attributes of its instances are found as object's are, or by a function in Python: that one the capture went
 * into, so that guards hold what it read. */
static int finds_plainly(PyTypeObject *type) {
  if (type->tp_getattro == PyObject_GenericGetAttr || PyType_IsSubtype(type, &PyModule_Type)) return 1;
  PyObject *name = PyUnicode_InternFromString("__getattribute__");
  PyObject *found = name == NULL ? NULL : _PyType_Lookup(type, name);
  PyObject *plain = name == NULL ? NULL : _PyType_Lookup(&PyBaseObject_Type, name);
  Py_XDECREF(name);
  return found != NULL && (found == plain || PyFunction_Check(found));
}

/* What the class of an object has under a name, where reading it there runs nothing; sets *is_plain. */
static PyObject *found_in_class(PyTypeObject *type, PyObject *name, int *is_plain) {
  PyObject *found = _PyType_Lookup(type, name);
  *is_plain = found == NULL || Py_TYPE(found)->tp_descr_get == NULL;
  return found;
}

/* An attribute of a class. */
static PyObject *attribute_of_class(HeldPaths *self, PyTypeObject *type, PyObject *name) {
  int is_plain, is_meta_plain;
  PyObject *found = found_in_class(type, name, &is_plain);
  PyObject *meta = found_in_class(Py_TYPE(type), name, &is_meta_plain);
  if (found == NULL || meta != NULL || !is_plain || Py_TYPE(type)->tp_getattro != PyType_Type.tp_getattro) return NULL;
  const int noted = note_type(self, (PyObject *)type) && note_type_version(self, (PyObject *)type) &&
                    note_type_version(self, (PyObject *)Py_TYPE(type));
  return noted ? found : NULL;
}

/* What an object itself, else its class has under a name, borrowed; NULL with *is_known 0 where that is not plain. */
static PyObject *find_attribute(HeldPaths *self, PyObject *object, PyObject *name, int *is_known) {
  PyTypeObject *type = Py_TYPE(object);
  int is_plain;
  *is_known = 0;
  PyObject *in_class = found_in_class(type, name, &is_plain);
  PyObject *dict = dict_of(object);
  if (dict == NULL || !finds_plainly(type)) return NULL;
  if (in_class != NULL && Py_TYPE(in_class)->tp_descr_set != NULL) return NULL;
  PyObject *found = found_in(dict, name);
  if (found == NULL && !is_plain) return NULL;
  *is_known = note_type(self, object) && note_type_version(self, (PyObject *)type) &&
              note(self, SAME_DICT, object, dict, 0) &&
              note_key(self, dict, name, found, PyModule_Check(object));
  return found != NULL ? found : in_class;
}

/* An attribute that a class keeps in a slot, as `__slots__` makes it; NULL where it is none. */
static PyObject *attribute_in_slot(HeldPaths *self, PyObject *object, PyObject *name) {
  PyObject *member = _PyType_Lookup(Py_TYPE(object), name);
  if (member == NULL || !Py_IS_TYPE(member, &PyMemberDescr_Type) || !finds_plainly(Py_TYPE(object))) return NULL;
  const PyMemberDef *slot = ((PyMemberDescrObject *)member)->d_member;
  if (slot->type != T_OBJECT_EX || !PyObject_TypeCheck(object, PyDescr_TYPE(member))) return NULL;
  PyObject *found = slot_of(object, (uint64_t)slot->offset);
  if (found == NULL || !note_type(self, object) || !note_type_version(self, (PyObject *)Py_TYPE(object))) return NULL;
  return note(self, SAME_SLOT, object, found, (uint64_t)slot->offset) ? found : NULL;
}

static PyObject *step_attribute(HeldPaths *self, PyObject *holder, PyObject *name) {
  if (PyType_Check(holder)) return attribute_of_class(self, (PyTypeObject *)holder, name);
  PyObject *in_slot = attribute_in_slot(self, holder, name);
  if (in_slot != NULL || PyErr_Occurred()) return in_slot;
  int is_known;
  PyObject *found = find_attribute(self, holder, name, &is_known);
  return is_known ? found : NULL;
}

static PyObject *step_dict(HeldPaths *self, PyObject *holder) {
  PyObject *dict = PyType_Check(holder) || !finds_plainly(Py_TYPE(holder)) ? NULL : dict_of(holder);
  return dict != NULL && note_type(self, holder) && note(self, SAME_DICT, holder, dict, 0) ? dict : NULL;
}

static int is_plain_key(PyObject *key) { return PyUnicode_CheckExact(key) || PyLong_CheckExact(key); }

static int is_dict(PyObject *object) { return PyDict_CheckExact(object) || PyODict_CheckExact(object); }

static PyObject *step_index(HeldPaths *self, PyObject *holder, PyObject *key, int is_module) {
  if (!is_plain_key(key)) return NULL;
  if (is_dict(holder)) {
    PyObject *found = found_in(holder, key);
    return found != NULL && note_type(self, holder) && note_key(self, holder, key, found, is_module) ? found : NULL;
  }
  if ((!PyList_CheckExact(holder) && !PyTuple_CheckExact(holder)) || !PyLong_CheckExact(key)) return NULL;
  const Py_ssize_t place = PyLong_AsSsize_t(key);
  if (place < 0 || place >= Py_SIZE(holder)) return NULL;
  PyObject *found = PyList_CheckExact(holder) ? PyList_GET_ITEM(holder, place) : PyTuple_GET_ITEM(holder, place);
  return note_type(self, holder) && note(self, SAME_ITEM, holder, found, (uint64_t)place) ? found : NULL;
}

static int is_immutable(PyObject *value) {
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
      if (!is_immutable(PyTuple_GET_ITEM(value, i))) return 0;
    }
    return 1;
  }
  return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) || PyUnicode_CheckExact(value) ||
         PyFloat_CheckExact(value) || PyBytes_CheckExact(value) || PyComplex_CheckExact(value);
}

static int fact_content(HeldPaths *self, PyObject *value) {
  if (is_immutable(value)) return PyList_Append(self->kept, value) == 0;
  if (is_dict(value)) return note_type(self, value) && note_version(self, value);
  if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return 0;
  return note_type(self, value) && note(self, SAME_SIZE, value, NULL, (uint64_t)Py_SIZE(value));
}

static int fact_lacks(HeldPaths *self, PyObject *value, PyObject *name) {
  PyObject *getter = PyUnicode_InternFromString("__getattr__");
  const int asks = getter == NULL || PyType_Check(value) || _PyType_Lookup(Py_TYPE(value), getter) != NULL;
  Py_XDECREF(getter);
  int is_known = 0;
  return !asks && find_attribute(self, value, name, &is_known) == NULL && is_known;
}

static int fact_key(HeldPaths *self, PyObject *value, PyObject *key, int is_module) {
  return is_dict(value) && is_plain_key(key) && note_type(self, value) &&
         note_key(self, value, key, found_in(value, key), is_module);
}

/* Whether what a step leads to is given at once: as a dict, then, it holds the variables of a module. */
static int is_given(const HeldPaths *self, Py_ssize_t number) {
  if (number < self->n_roots) return 0;
  const StepKind kind = self->steps[number - self->n_roots].kind;
  return kind == STEP_CONSTANT || kind == STEP_FIELD;
}

/* What a step leads to from its holder, borrowed; NULL where that is not to be remembered. */
static PyObject *walk(HeldPaths *self, const Step *step, PyObject *holder) {
  const int is_module = step->kind != STEP_CONSTANT && is_given(self, step->holder);
  int field;
  switch (step->kind) {
    case STEP_CONSTANT: return step->key;
    case STEP_DICT: return step_dict(self, holder);
    case STEP_ATTRIBUTE: return step_attribute(self, holder, step->key);
    case STEP_INDEX: return step_index(self, holder, step->key, is_module);
    case STEP_CELL:
      if (!PyCell_Check(holder) || PyCell_GET(holder) == NULL || !note_type(self, holder)) return NULL;
      return note(self, SAME_IN_CELL, holder, PyCell_GET(holder), 0) ? PyCell_GET(holder) : NULL;
    case STEP_FIELD:
      field = field_number(step->key);
      if (field < 0 || !PyFunction_Check(holder) || !note_type(self, holder)) return NULL;
      return note(self, SAME_FIELD, holder, field_of(holder, field), field) ? field_of(holder, field) : NULL;
    case FACT_TYPE: return note_type(self, holder) ? holder : NULL;
    case FACT_SCALAR: return is_immutable(holder) && PyList_Append(self->kept, holder) == 0 ? holder : NULL;
    case FACT_KEY: return fact_key(self, holder, step->key, is_module) ? holder : NULL;
    case FACT_CONTENT: return fact_content(self, holder) ? holder : NULL;
    case FACT_ORDER: return PyDict_CheckExact(holder) && fact_content(self, holder) ? holder : NULL;
    case FACT_LACKS: return fact_lacks(self, holder, step->key) ? holder : NULL;
  }
  return NULL;
}

static void forget(HeldPaths *self) {
  self->is_learnt = self->is_known = 0;
  self->n_checks = 0;
  if (self->table != NULL) memset(self->table, 0, (size_t)(2 * self->room) * sizeof(Py_ssize_t));
  PyList_SetSlice(self->kept, 0, PyList_GET_SIZE(self->kept), NULL);
}

/* Walks all steps; values are NULL where one is not to be remembered. Returns how many are not, or -1 on error. */
static Py_ssize_t walk_all(HeldPaths *self, PyObject *const *roots) {
  Py_ssize_t n_refused = 0;
  forget(self);
  for (Py_ssize_t i = 0; i < self->n_roots; i++) {
    self->values[i] = roots[i];
    if (!note_type(self, roots[i])) return -1;
  }
  for (Py_ssize_t i = 0; i < self->n_steps; i++) {
    const Step *step = &self->steps[i];
    PyObject *holder = self->values[step->kind == STEP_CONSTANT ? 0 : step->holder];
    PyObject *value = holder == NULL ? NULL : walk(self, step, holder);
    if (value == NULL && PyErr_Occurred()) return -1;
    n_refused += value == NULL;
    self->values[self->n_roots + i] = value;
  }
  return n_refused;
}

static int is_called_right(const HeldPaths *self, Py_ssize_t n_roots) {
  if (n_roots != self->n_roots) PyErr_Format(PyExc_TypeError, "%zd roots are needed", self->n_roots);
  return n_roots == self->n_roots;
}

PyDoc_STRVAR(walk_doc,
             "walk(*roots)\n--\n\nWhat each step leads to, as a list; NotImplemented where that is not to be remembered.");

static PyObject *held_walk(HeldPaths *self, PyObject *const *roots, Py_ssize_t n_roots) {
  if (!is_called_right(self, n_roots)) return NULL;
  PyObject *found = PyList_New(self->n_steps);
  if (found == NULL || walk_all(self, roots) < 0) {
    Py_XDECREF(found);
    return NULL;
  }
  for (Py_ssize_t i = 0; i < self->n_steps; i++) {
    PyObject *value = self->values[n_roots + i];
    PyList_SET_ITEM(found, i, Py_NewRef(value == NULL ? Py_NotImplemented : value));
  }
  forget(self);
  return found;
}

PyDoc_STRVAR(learn_doc,
             "learn(*roots)\n--\n\nWalk all steps and note what is relied on. Returns what to give to keep() if the guards\n"
             "hold. Nothing is noted where a step is not to be remembered, and after a while of no use.");

static PyObject *held_learn(HeldPaths *self, PyObject *const *roots, Py_ssize_t n_roots) {
  if (!is_called_right(self, n_roots)) return NULL;
  self->n_learnt++;
  if (self->n_lost > MOST_LOST) return PyLong_FromSsize_t(self->n_learnt);
  const Py_ssize_t n_refused = walk_all(self, roots);
  if (n_refused < 0) return NULL;
  if (n_refused != 0) {
    forget(self);
    self->n_lost++;
  }
  self->is_learnt = n_refused == 0;
  return PyLong_FromSsize_t(self->n_learnt);
}

PyDoc_STRVAR(keep_doc,
             "keep(learnt, /)\n--\n\nThe guards held after that learn(); unless another came meanwhile, it is remembered.");

static PyObject *held_keep(HeldPaths *self, PyObject *learnt) {
  const Py_ssize_t number = PyLong_AsSsize_t(learnt);
  if (number == -1 && PyErr_Occurred()) return NULL;
  self->is_known = self->is_learnt && number == self->n_learnt;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(recall_doc,
             "recall(*roots)\n--\n\nThe outputs' values, where all that was learnt is as it was; else None.");

static PyObject *held_recall(HeldPaths *self, PyObject *const *roots, Py_ssize_t n_roots) {
  if (!is_called_right(self, n_roots)) return NULL;
  if (!self->is_known) Py_RETURN_NONE;
  PyObject *result = PyTuple_New(self->n_outputs); /* first: it may run what changes anything */
  if (result == NULL) return NULL;
  int is_same = self->is_known;
  for (Py_ssize_t i = 0; is_same && i < n_roots; i++) is_same = self->values[i] == roots[i];
  for (Py_ssize_t i = 0; is_same && i < self->n_checks; i++) is_same = holds(&self->checks[i]);
  for (Py_ssize_t i = 0; is_same && i < self->n_outputs; i++) {
    PyTuple_SET_ITEM(result, i, Py_NewRef(self->values[self->outputs[i]]));
  }
  self->n_lost = is_same ? 0 : self->n_lost + 1;
  if (is_same) return result;
  Py_DECREF(result);
  forget(self);
  Py_RETURN_NONE;
}

static void held_dealloc(HeldPaths *self) {
  for (Py_ssize_t i = 0; i < self->n_steps; i++) Py_XDECREF(self->steps[i].key);
  PyMem_Free(self->steps);
  PyMem_Free(self->outputs);
  PyMem_Free(self->values);
  PyMem_Free(self->checks);
  PyMem_Free(self->table);
  Py_XDECREF(self->kept);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

static int read_steps(HeldPaths *self, PyObject *steps) {
  for (Py_ssize_t i = 0; i < self->n_steps; i++) {
    int kind;
    PyObject *key;
    Step *step = &self->steps[i];
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(steps, i), "inO", &kind, &step->holder, &key)) return 0;
    step->kind = (StepKind)kind;
    step->key = Py_NewRef(key);
    const int is_named = kind == STEP_ATTRIBUTE || kind == STEP_FIELD || kind == FACT_LACKS;
    if (kind < 0 || kind > FACT_LACKS || step->holder < 0 || step->holder >= self->n_roots + i + (kind == 0) ||
        (is_named && !PyUnicode_CheckExact(key))) {
      PyErr_Format(PyExc_ValueError, "step %zd is none", i);
      return 0;
    }
  }
  return 1;
}

static PyObject *held_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)kwargs;
  Py_ssize_t n_roots;
  PyObject *steps, *outputs;
  if (!PyArg_ParseTuple(args, "nO!O!", &n_roots, &PyTuple_Type, &steps, &PyTuple_Type, &outputs)) return NULL;
  HeldPaths *self = (HeldPaths *)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->n_roots = n_roots;
  self->n_steps = PyTuple_GET_SIZE(steps);
  self->n_outputs = PyTuple_GET_SIZE(outputs);
  self->steps = PyMem_Calloc((size_t)self->n_steps + 1, sizeof(Step));
  self->outputs = PyMem_Calloc((size_t)self->n_outputs + 1, sizeof(Py_ssize_t));
  self->values = PyMem_Calloc((size_t)(n_roots + self->n_steps) + 1, sizeof(PyObject *));
  self->kept = PyList_New(0);
  const int has_memory = self->steps && self->outputs && self->values && self->kept;
  int is_right = has_memory && read_steps(self, steps);
  for (Py_ssize_t i = 0; is_right && i < self->n_outputs; i++) {
    self->outputs[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(outputs, i));
    is_right = self->outputs[i] >= 0 && self->outputs[i] < n_roots + self->n_steps;
  }
  if (is_right) return (PyObject *)self;
  if (!PyErr_Occurred()) PyErr_SetString(has_memory ? PyExc_ValueError : PyExc_MemoryError, "no such output");
  Py_DECREF(self);
  return NULL;
}

static PyMethodDef held_methods[] = {
    {"walk", (PyCFunction)(void (*)(void))held_walk, METH_FASTCALL, walk_doc},
    {"learn", (PyCFunction)(void (*)(void))held_learn, METH_FASTCALL, learn_doc},
    {"keep", (PyCFunction)held_keep, METH_O, keep_doc},
    {"recall", (PyCFunction)(void (*)(void))held_recall, METH_FASTCALL, recall_doc},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject held_paths_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "longhand.capture._frame_eval.HeldPaths",
    .tp_doc = "HeldPaths(n_roots, steps, outputs): see the head of capture/_held_paths.h.\n\n"
              "Steps are (kind, number of the holder, key); roots are numbered first, then steps.",
    .tp_basicsize = sizeof(HeldPaths),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = held_new,
    .tp_dealloc = (destructor)held_dealloc,
    .tp_methods = held_methods,
};
