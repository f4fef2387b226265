// Matrix products with plans that are kept.
//
// In every call of a product, ATen reads its settings, describes the matrices to cuBLAS and lets it choose an
// algorithm. Here the first call of a kind does that, in ATen's way, and what it makes is a Plan; the calls after it go
// straight to cublasLtMatmul, in about half of the host's time. Calls are of one kind if their Keys are equal: the
// function, sizes, strides, dtype, device, precision, and how addresses are aligned.
//
// Whatever is unusual is left to ATen, and so is each kind for which cuBLAS has no plan: with_plan() returns NULL then.

#include <stdlib.h>

#include "matrices.h"
#include "tensors.h"

// ---- What torch gave, in longhand_blas() ----

enum { LIMIT_WITH_BIAS = 1 << 20 };  // bytes of workspace that ATen gives cublasLt, which it calls for a bias alone
enum { MOST_PLANS = 4096, MOST_DEVICES = 64, ENOUGH_ALIGNED = 256, LEAST_ALIGNED = 16 };

static const Exchange *exchange;
static PyObject *tensor_class, *parameter_class;
static PyObject *aten[N_FUNCTIONS];
static PyObject *empty;                         // of sizes, strides and a dtype, on the current device
static PyObject *unusual;                       // what must all say no: modes, settings that are not the usual ones
static PyObject *is_grad_enabled;
static PyObject *precision, *of_matmul;         // float32's, and its arguments
static PyObject *full_bfloat16, *full_float16;  // whether sums may be rounded to these types: the usual setting
static PyObject *current_device;                // None where there is one device
static PyObject *uint8;
static PyObject *word_is_neg, *word_requires_grad;
static int64_t workspace_limits[MOST_DEVICES];

// ---- Plans ----

typedef struct {
  Key key;
  bool is_for_aten;  // for good; nothing below need be filled in
  bool is_running;   // in some thread, with its bias in the operation
  void *operation, *a_layout, *b_layout, *out_layout;
  Heuristic chosen;
  const void *bias;           // the address in the operation
  PyObject *out, *workspace;  // arguments of `empty`
} Plan;

// Open addressing; plans are never forgotten, so that a thread may use one while others look for theirs.
static Plan *plans[2 * MOST_PLANS];
static int n_plans;
static void *handles[MOST_DEVICES];

static Plan **place_of(const Key *key) {
  const int64_t *words = (const int64_t *)key;
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof(Key) / sizeof(int64_t); ++i) {
    hash += (uint64_t)words[i] * (0x9E3779B97F4A7C15u * (2 * i + 1));
  }
  hash ^= hash >> 32;
  for (;; ++hash) {
    Plan **place = &plans[hash % (2 * MOST_PLANS)];
    if (*place == NULL || memcmp(&(*place)->key, key, sizeof(Key)) == 0) return place;
  }
}

// ---- A plan is made ----

// The algorithm that cuBLAS finds best with ATen's workspace and these alignments.
static int choose(Plan *plan, const int64_t *alignments) {
  void *preferences;
  const bool has_bias = plan->key.n_dims[BIAS] != 0;
  const int64_t limit = has_bias ? LIMIT_WITH_BIAS : workspace_limits[plan->key.device];
  const uint32_t of_a = (uint32_t)alignments[B], of_b = (uint32_t)alignments[A], of_out = ENOUGH_ALIGNED;
  const uint32_t of_d = has_bias ? (uint32_t)alignments[BIAS] : of_out;  // ATen tells the bias's there
  if (cublas.create_preferences(&preferences)) return 1;
  int n_found = 0;
  const int failed = cublas.set_of_preferences(preferences, MOST_WORKSPACE, &limit, sizeof limit) ||
                     cublas.set_of_preferences(preferences, ALIGNMENT_A, &of_a, sizeof of_a) ||
                     cublas.set_of_preferences(preferences, ALIGNMENT_B, &of_b, sizeof of_b) ||
                     cublas.set_of_preferences(preferences, ALIGNMENT_C, &of_out, sizeof of_out) ||
                     cublas.set_of_preferences(preferences, ALIGNMENT_D, &of_d, sizeof of_d) ||
                     cublas.choose(
                         handles[plan->key.device], plan->operation, plan->a_layout, plan->b_layout, plan->out_layout,
                         plan->out_layout, preferences, 1, &plan->chosen, &n_found);
  cublas.destroy_preferences(preferences);
  return failed || n_found != 1 || plan->chosen.status;
}

static PyObject *tuple_of(const int64_t *numbers, int n) {
  PyObject *made = PyTuple_New(n);
  for (int i = 0; made != NULL && i < n; ++i) {
    PyObject *number = PyLong_FromLongLong(numbers[i]);
    if (number == NULL) Py_CLEAR(made);
    else PyTuple_SET_ITEM(made, i, number);
  }
  return made;
}

// The result's sizes, strides and dtype.
static PyObject *arguments_of_empty(const Key *key, int64_t cols, PyObject *dtype) {
  const int n_dims = (int)key->n_dims[A];
  int64_t sizes[MOST_DIMS], strides[MOST_DIMS];
  for (int dim = n_dims - 1; dim >= 0; --dim) {
    const bool is_last = dim == n_dims - 1;
    sizes[dim] = is_last ? cols : key->sizes[A][dim];
    strides[dim] = is_last ? 1 : strides[dim + 1] * sizes[dim + 1];
  }
  PyObject *of_sizes = tuple_of(sizes, n_dims), *of_strides = tuple_of(strides, n_dims);
  const bool are_made = of_sizes != NULL && of_strides != NULL;
  PyObject *made = are_made ? PyTuple_Pack(3, of_sizes, of_strides, dtype) : NULL;
  Py_XDECREF(of_sizes);
  Py_XDECREF(of_strides);
  return made;
}

// Row by row, out = a b is what cuBLAS, column by column, calls out^T = b^T a^T: b is its first matrix.
static bool is_planned(Plan *plan, PyObject *like, const void *bias) {
  const Key *key = &plan->key;
  Matrix a, b;
  if (!are_factors(key, &a, &b)) return false;
  const Matrix out = {a.rows, b.cols, b.cols, 1, a.batch, a.rows * b.cols};
  const int type = key->bits == 32 ? R_32F : key->kind == BFLOATS ? R_16BF : R_16F;
  int32_t of_a, of_b, of_out;
  if (handles[key->device] == NULL && cublas.create(&handles[key->device])) {
    handles[key->device] = NULL;
    return false;
  }
  const int how = key->is_tf32 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F;
  if (cublas.create_operation(&plan->operation, how, R_32F)) return false;
  if (lay_out(&b, type, &plan->a_layout, &of_b) || lay_out(&a, type, &plan->b_layout, &of_a)) return false;
  if (lay_out(&out, type, &plan->out_layout, &of_out)) return false;
  if (cublas.set_of_operation(plan->operation, TRANSPOSE_A, &of_b, sizeof of_b)) return false;
  if (cublas.set_of_operation(plan->operation, TRANSPOSE_B, &of_a, sizeof of_a)) return false;
  if (bias != NULL) {
    const int32_t epilogue = ADD_BIAS;
    if (cublas.set_of_operation(plan->operation, EPILOGUE, &epilogue, sizeof epilogue)) return false;
    if (cublas.set_of_operation(plan->operation, BIAS_POINTER, &bias, sizeof bias)) return false;
    plan->bias = bias;
  }
  if (choose(plan, key->alignments)) return false;
  PyObject *dtype = PyObject_GetAttrString(like, "dtype");
  if (dtype == NULL) return false;
  plan->out = arguments_of_empty(key, b.cols, dtype);
  Py_DECREF(dtype);
  if (plan->chosen.workspace_bytes != 0) {
    plan->workspace = Py_BuildValue("((n)(i)O)", (Py_ssize_t)plan->chosen.workspace_bytes, 1, uint8);
    if (plan->workspace == NULL) return false;
  }
  return plan->out != NULL;
}

// Gives back what a plan holds that will not run.
static void clear(Plan *plan) {
  if (plan->operation != NULL) cublas.destroy_operation(plan->operation);
  void *const layouts[] = {plan->a_layout, plan->b_layout, plan->out_layout};
  for (int i = 0; i < 3; ++i) {
    if (layouts[i] != NULL) cublas.destroy_layout(layouts[i]);
  }
  plan->operation = plan->a_layout = plan->b_layout = plan->out_layout = NULL;
  Py_CLEAR(plan->out);
  Py_CLEAR(plan->workspace);
}

// The plan for such calls, made where there is none yet; NULL where ATen computes them.
static Plan *plan_for(const Key *key, PyObject *like, const void *bias) {
  Plan **place = place_of(key);
  if (*place == NULL) {
    if (n_plans == MOST_PLANS) return NULL;
    Plan *made = calloc(1, sizeof(Plan));
    if (made == NULL) return NULL;
    made->key = *key;
    made->is_for_aten = !is_planned(made, like, bias);
    PyErr_Clear();
    if (made->is_for_aten) clear(made);
    place = place_of(key);  // Python may have run meanwhile, in another thread or in this
    if (*place == NULL && n_plans < MOST_PLANS) {
      *place = made, ++n_plans;
    } else {
      clear(made);
      free(made);
      if (*place == NULL) return NULL;
    }
  }
  return (*place)->is_for_aten || (*place)->is_running ? NULL : *place;
}

// ---- A call ----

static bool says_no(PyObject *question) {
  PyObject *answer = PyObject_CallNoArgs(question);
  const bool is_no = answer != NULL && PyObject_IsTrue(answer) == 0;
  Py_XDECREF(answer);
  return is_no;
}

// Of one setting or of a tuple of them.
static bool says_yes(PyObject *question) {
  PyObject *answer = PyObject_CallNoArgs(question);
  bool is_yes = answer == Py_True;
  if (answer != NULL && PyTuple_CheckExact(answer)) {
    is_yes = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(answer); ++i) is_yes &= PyTuple_GET_ITEM(answer, i) == Py_True;
  }
  Py_XDECREF(answer);
  return is_yes;
}

// Whether a product is what it is by default, or one of float32 in TF32.
static bool is_precision_known(Key *key) {
  if (key->kind == BFLOATS && key->bits == 16) return says_yes(full_bfloat16);
  if (key->kind == FLOATS && key->bits == 16) return says_yes(full_float16);
  if (key->kind != FLOATS || key->bits != 32) return false;
  PyObject *answer = PyObject_Call(precision, of_matmul, NULL);
  const char *word = answer == NULL ? NULL : PyUnicode_AsUTF8(answer);
  key->is_tf32 = word != NULL && strcmp(word, "tf32") == 0;
  const bool is_known = key->is_tf32 || (word != NULL && (strcmp(word, "none") == 0 || strcmp(word, "ieee") == 0));
  Py_XDECREF(answer);
  return is_known;
}

static bool is_usual(PyObject *const *operands, const Tensor *first) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(unusual); ++i) {
    if (!says_no(PyTuple_GET_ITEM(unusual, i))) return false;
  }
  for (int which = 0; which < N_OPERANDS && operands[which] != NULL; ++which) {
    PyObject *answer = PyObject_CallMethodNoArgs(operands[which], word_is_neg);  // memory of the opposite sign
    const bool is_as_it_lies = answer == Py_False;
    Py_XDECREF(answer);
    if (!is_as_it_lies) return false;
  }
  if (!says_no(is_grad_enabled)) {  // then what autograd watches is ATen's
    for (int which = 0; which < N_OPERANDS && operands[which] != NULL; ++which) {
      PyObject *answer = PyObject_GetAttr(operands[which], word_requires_grad);
      const bool is_free = answer == Py_False;
      Py_XDECREF(answer);
      if (!is_free) return false;
    }
  }
  if (current_device == Py_None) return true;
  PyObject *device = PyObject_CallNoArgs(current_device);
  const bool is_here = device != NULL && PyLong_AsLong(device) == first->device;
  Py_XDECREF(device);
  return is_here;
}

// Reads the operands into the key; false for what has no key.
static bool has_key(PyObject *const *operands, Tensor *tensors, Key *key) {
  for (int which = 0; which < N_OPERANDS && operands[which] != NULL; ++which) {
    PyTypeObject *type = Py_TYPE(operands[which]);
    if (type != (PyTypeObject *)tensor_class && type != (PyTypeObject *)parameter_class) return false;
    Tensor *one = &tensors[which];
    if (exchange->read(operands[which], one) != 0) return false;
    if (one->device_type != ON_CUDA || one->device != tensors[A].device) return false;
    if (one->device < 0 || one->device >= MOST_DEVICES) return false;
    if (one->kind != tensors[A].kind || one->bits != tensors[A].bits || one->lanes != 1) return false;
    if (one->n_dims > MOST_DIMS || one->n_dims < 1 || one->strides == NULL) return false;
    const uintptr_t address = (uintptr_t)one->data, lowest_bit = address & (~address + 1);
    if (lowest_bit < LEAST_ALIGNED) return false;
    key->alignments[which] = lowest_bit < ENOUGH_ALIGNED ? (int64_t)lowest_bit : ENOUGH_ALIGNED;
    key->n_dims[which] = one->n_dims;
    for (int dim = 0; dim < one->n_dims; ++dim) {
      key->sizes[which][dim] = one->sizes[dim], key->strides[which][dim] = one->strides[dim];
    }
  }
  key->device = tensors[A].device, key->kind = tensors[A].kind, key->bits = tensors[A].bits;
  return true;
}

// Whether cuBLAS takes a plan.
static bool has_run(Plan *plan, const Tensor *tensors, const Tensor *out, void *workspace, void *stream) {
  static const float one = 1, zero = 0;
  const void *bias = plan->key.n_dims[BIAS] ? tensors[BIAS].data : NULL;
  if (bias != plan->bias) {
    if (cublas.set_of_operation(plan->operation, BIAS_POINTER, &bias, sizeof bias)) return false;
    plan->bias = bias;
  }
  int failed;
  plan->is_running = bias != NULL;  // the operation holds the bias: another thread's call is ATen's meanwhile
  Py_BEGIN_ALLOW_THREADS
  failed = cublas.multiply(
      handles[plan->key.device], plan->operation, &one, tensors[B].data, plan->a_layout, tensors[A].data,
      plan->b_layout, &zero, out->data, plan->out_layout, out->data, plan->out_layout, plan->chosen.algorithm,
      workspace, plan->chosen.workspace_bytes, stream);
  Py_END_ALLOW_THREADS
  plan->is_running = false;
  return !failed;
}

// The product; NULL, with or without an exception, where ATen is to compute it.
static PyObject *with_plan(int function, PyObject *a, PyObject *b, PyObject *bias) {
  PyObject *const operands[N_OPERANDS] = {a, b, bias};
  Tensor tensors[N_OPERANDS], out, scratch = {0};
  Key key;
  memset(&key, 0, sizeof key);
  key.function = function;
  Matrix first, second;
  if (!has_key(operands, tensors, &key) || !are_factors(&key, &first, &second)) return NULL;
  if (!is_usual(operands, &tensors[A]) || !is_precision_known(&key)) return NULL;
  void *stream;
  int status = 0;
  if (exchange->current_stream(ON_CUDA, tensors[A].device, &stream) != 0) return NULL;
  if (cublas.is_capturing(stream, &status) != 0 || status != 0) return NULL;  // into a graph, the host's time does not matter
  Plan *plan = aten_is_ready(key.device) ? plan_for(&key, a, bias == NULL ? NULL : tensors[BIAS].data) : NULL;
  if (plan == NULL) return NULL;
  PyObject *result = PyObject_Call(empty, plan->out, NULL);
  const bool takes_more = result != NULL && plan->workspace != NULL;
  PyObject *workspace = takes_more ? PyObject_Call(empty, plan->workspace, NULL) : NULL;
  bool is_ready = result != NULL && exchange->read(result, &out) == 0 && (uintptr_t)out.data % ENOUGH_ALIGNED == 0;
  is_ready &= plan->workspace == NULL || (workspace != NULL && exchange->read(workspace, &scratch) == 0);
  is_ready &= !plan->is_running;  // allocation may have let another thread run
  if (is_ready && !has_run(plan, tensors, &out, scratch.data, stream)) plan->is_for_aten = true, is_ready = false;
  Py_XDECREF(workspace);  // the stream's next tensor may have it: it comes later
  if (!is_ready) Py_CLEAR(result);
  return result;
}

static PyObject *multiply(
    int function, PyObject *a, PyObject *b, PyObject *bias, PyObject *const *given, Py_ssize_t n_given) {
  PyObject *result = a == NULL ? NULL : with_plan(function, a, b, bias == Py_None ? NULL : bias);
  if (result != NULL) return result;
  PyErr_Clear();
  return PyObject_Vectorcall(aten[function], given, n_given, NULL);
}

static PyObject *linear(PyObject *self, PyObject *const *given, Py_ssize_t n) {
  (void)self;
  if (n < 2 || n > 3) return multiply(LINEAR, NULL, NULL, NULL, given, n);
  return multiply(LINEAR, given[0], given[1], n == 3 ? given[2] : NULL, given, n);
}

static PyObject *mm(PyObject *self, PyObject *const *given, Py_ssize_t n) {
  (void)self;
  return n == 2 ? multiply(MM, given[0], given[1], NULL, given, n) : multiply(MM, NULL, NULL, NULL, given, n);
}

static PyObject *bmm(PyObject *self, PyObject *const *given, Py_ssize_t n) {
  (void)self;
  return n == 2 ? multiply(BMM, given[0], given[1], NULL, given, n) : multiply(BMM, NULL, NULL, NULL, given, n);
}

static PyObject *addmm(PyObject *self, PyObject *const *given, Py_ssize_t n) {
  (void)self;
  if (n != 3 || given[0] == Py_None) return multiply(ADDMM, NULL, NULL, NULL, given, n);
  return multiply(ADDMM, given[1], given[2], given[0], given, n);
}

// ---- The way in ----

#define METHOD(name) {#name, (PyCFunction)(void *)name, METH_FASTCALL, NULL}
static PyMethodDef methods[N_FUNCTIONS] = {METHOD(linear), METHOD(mm), METHOD(bmm), METHOD(addmm)};

static PyObject *functions_made(void) {
  PyObject *made = PyTuple_New(N_FUNCTIONS);
  for (int i = 0; made != NULL && i < N_FUNCTIONS; ++i) {
    PyObject *function = PyCFunction_New(&methods[i], NULL);
    if (function == NULL) Py_CLEAR(made);
    else PyTuple_SET_ITEM(made, i, function);
  }
  return made;
}

// Reads the tuples that longhand_blas() is given; false, with an exception, where they are not as they should be.
static bool are_read(PyObject *functions, PyObject *reductions, PyObject *limits, int64_t *of_devices) {
  if (PyTuple_GET_SIZE(functions) != N_FUNCTIONS || PyTuple_GET_SIZE(reductions) != 2) {
    PyErr_SetString(PyExc_ValueError, "expected four functions and two settings");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(limits) && i < MOST_DEVICES; ++i) {
    of_devices[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(limits, i));
    if (of_devices[i] == -1 && PyErr_Occurred()) return false;
  }
  return true;
}

// The four functions, for what runtime.py knows of torch; NULL, with an exception, where they cannot be had. Units of
// one process share them: what an earlier one told holds until all of this one's is read.
PyObject *longhand_blas(PyObject *known) {
  PyObject *tensors, *parameters, *functions, *allocates, *modes, *watches, *says, *of_what, *reductions, *device;
  PyObject *limits, *byte;
  const char *cublas_path, *driver_path;
  int64_t of_devices[MOST_DEVICES] = {0};
  if (!PyArg_ParseTuple(
          known, "OOO!OO!OOO!O!OO!Oss", &tensors, &parameters, &PyTuple_Type, &functions, &allocates, &PyTuple_Type,
          &modes, &watches, &says, &PyTuple_Type, &of_what, &PyTuple_Type, &reductions, &device, &PyTuple_Type,
          &limits, &byte, &cublas_path, &driver_path) ||
      !are_read(functions, reductions, limits, of_devices) || !are_found(cublas_path, driver_path)) {
    return NULL;
  }
  const Exchange *found = exchange_of(tensors);
  PyObject *made = found == NULL ? NULL : functions_made();
  if (word_is_neg == NULL) word_is_neg = PyUnicode_InternFromString("is_neg");
  if (word_requires_grad == NULL) word_requires_grad = PyUnicode_InternFromString("requires_grad");
  if (word_is_neg == NULL || word_requires_grad == NULL) Py_CLEAR(made);
  if (made == NULL) return NULL;
  Py_INCREF(known);  // for good, and with it all that is borrowed here: calls of other units may be running
  exchange = found, tensor_class = tensors, parameter_class = parameters, empty = allocates, unusual = modes;
  is_grad_enabled = watches, precision = says, of_matmul = of_what, current_device = device, uint8 = byte;
  full_bfloat16 = PyTuple_GET_ITEM(reductions, 0), full_float16 = PyTuple_GET_ITEM(reductions, 1);
  for (int i = 0; i < N_FUNCTIONS; ++i) aten[i] = PyTuple_GET_ITEM(functions, i);
  memcpy(workspace_limits, of_devices, sizeof of_devices);
  return made;
}
