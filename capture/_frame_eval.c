/* The frame hook (PEP 523): hands Python functions to the capture before CPython runs them.
 *
 * One rule keeps this small: no frame is ever built by hand. Each code object carries one of three marks
 * in its co_extra slot:
 *
 *     nothing     not seen yet: `callback(function)` is asked, and returns a replacement or None
 *     SKIP        CPython runs it as always
 *     a callable  called as replacement(function, *arguments), where `arguments` are the first locals of
 *                 the new frame (positional, keyword-only, *args, **kwargs: flattened, in that order);
 *                 what it returns is what the call returns
 *
 * Beside the hook stand the guards on classes and on the code of functions (_class_guards.h), and the paths that
 * guards walk, remembered from call to call (_held_paths.h).
 *
 * The hook is set in the interpreter only while somebody is inside `enable` ... `disable`, is active only
 * in the threads, and there in the contexts (contextvars: greenlets have one each), that are. Passed through
 * at once are resumed generators and coroutines, class and module bodies, and all frames while the callback
 * runs, or one of a profiler or debugger.
 *
 * Frames elsewhere go to whatever evaluator was there before; frames inside do not, and torch's Dynamo is off
 * for them: it must not capture what captures. Other evaluators come and go in other threads, in any order,
 * and may have kept ours as the one that they chain to, while we chain to them: a frame that comes round is
 * run by CPython.
 */

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1
#include <Python.h>

#include <internal/pycore_frame.h>

#include "_class_guards.h"
#include "_held_paths.h"

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000 || defined(Py_GIL_DISABLED)
#error "longhand's frame hook knows the frames of CPython 3.11, 3.12 and 3.13, with the GIL"
#endif

#if PY_VERSION_HEX >= 0x030D0000
#define FRAME_CODE(frame) ((PyCodeObject *)(frame)->f_executable)
#define SET_FRAME_CODE(frame, code) ((frame)->f_executable = (PyObject *)(code))
#define IS_AT_START(frame) ((frame)->instr_ptr == _PyCode_CODE(FRAME_CODE(frame)))
#define GO_TO_START(frame) ((frame)->instr_ptr = _PyCode_CODE(FRAME_CODE(frame)))
#else
#define FRAME_CODE(frame) ((frame)->f_code)
#define SET_FRAME_CODE(frame, code) ((frame)->f_code = (code))
#define IS_AT_START(frame) ((frame)->prev_instr < _PyCode_CODE(FRAME_CODE(frame)))
#define GO_TO_START(frame) ((frame)->prev_instr = _PyCode_CODE(FRAME_CODE(frame)) - 1)
#endif

#if PY_VERSION_HEX >= 0x030C0000
#define FRAME_FUNCTION(frame) ((frame)->f_funcobj)
#define GET_CODE_EXTRA PyUnstable_Code_GetExtra
#define SET_CODE_EXTRA PyUnstable_Code_SetExtra
#define REQUEST_CODE_EXTRA PyUnstable_Eval_RequestCodeExtraIndex
#else
#define FRAME_FUNCTION(frame) ((PyObject *)(frame)->f_func)
#define GET_CODE_EXTRA _PyCode_GetExtra
#define SET_CODE_EXTRA _PyCode_SetExtra
#define REQUEST_CODE_EXTRA _PyEval_RequestCodeExtraIndex
#endif

static Py_ssize_t extra_index = -1;
static PyObject *skip_mark;                 /* the mark SKIP, a plain object() */
static PyCodeObject *empty_code;            /* the code of `def empty(): pass`: see clear_frame */
static _PyFrameEvalFunction previous_eval;  /* what the hook chains to */
static Py_ssize_t n_scopes;                 /* in all threads; guarded by the GIL */

/* A context of this thread that is inside enable() ... disable(). */
typedef struct Scope {
  struct Scope *next;
  PyObject *context;
  PyObject *callback;  /* NULL: the hook is off */
  int depth;           /* of enable() calls */
} Scope;

static _Thread_local Scope *scopes;                        /* newest first */
static _Thread_local struct _PyInterpreterFrame *chained;  /* the frame that was handed to previous_eval */

static PyObject *evaluate(PyThreadState *thread, struct _PyInterpreterFrame *frame, int throwing);

static Scope *scope_of(const PyThreadState *thread) {
  Scope *scope = scopes;
  while (scope != NULL && scope->context != thread->context) scope = scope->next;
  return scope;
}

/* The scope of the running context, made where there is none; NULL on error. */
static Scope *open_scope(void) {
  PyThreadState *thread = PyThreadState_Get();
  if (thread->context == NULL) {  /* as long as nobody has set a variable: then all greenlets look the same */
    PyObject *variable = PyContextVar_New("longhand", NULL);
    PyObject *token = variable == NULL ? NULL : PyContextVar_Set(variable, Py_None);
    Py_XDECREF(variable);
    if (token == NULL) return NULL;
    Py_DECREF(token);
  }
  Scope *scope = scope_of(thread);
  if (scope != NULL) return scope;
  scope = PyMem_New(Scope, 1);
  if (scope == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  *scope = (Scope){.next = scopes, .context = Py_NewRef(thread->context)};
  scopes = scope;
  n_scopes++;
  return scope;
}

static void close_scope(Scope *closed) {
  Scope **place = &scopes;
  while (*place != closed) place = &(*place)->next;
  *place = closed->next;
  n_scopes--;
  Py_DECREF(closed->context);
  PyMem_Free(closed);
}

/* Sets a scope's callback, taking over the reference, and hands out the old one's (None: the hook was off). */
static PyObject *exchange_callback(Scope *scope, PyObject *callback) {
  PyObject *old = scope->callback;
  scope->callback = callback;
  return old == NULL ? Py_NewRef(Py_None) : old;
}

static void set_evaluator(_PyFrameEvalFunction evaluator) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluator);
}

static int is_alone(void) {
  _PyFrameEvalFunction evaluator = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
  return (evaluator == evaluate ? previous_eval : evaluator) == _PyEval_EvalFrameDefault;
}

static int is_set(void) { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate; }

static void free_extra(void *extra) { Py_XDECREF((PyObject *)extra); }

static int set_mark(PyObject *code, PyObject *mark) {
  Py_XINCREF(mark);
  if (SET_CODE_EXTRA(code, extra_index, mark) < 0) {
    Py_XDECREF(mark);
    return -1;
  }
  return 0;
}

/* Ends a frame that CPython made but never ran. On 3.11 the caller does it. From 3.12 on the evaluator
 * does, so it is given an empty function's code to run in that frame. Unseen by profilers and debuggers: the
 * frame object that they are shown would have room for what the empty function holds, and as soon as they keep
 * it CPython copies into it what this frame holds. */
static int clear_frame(PyThreadState *thread, struct _PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030C0000
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyCodeObject *old_code = FRAME_CODE(frame);
  Py_INCREF(empty_code);
  SET_FRAME_CODE(frame, empty_code);
  GO_TO_START(frame);
  Py_DECREF(old_code);
  PyThreadState_EnterTracing(thread);
  PyObject *none = _PyEval_EvalFrameDefault(thread, frame, 0);
  PyThreadState_LeaveTracing(thread);
  if (none == NULL) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return -1;
  }
  Py_DECREF(none);
  PyErr_Restore(type, value, traceback);
#else
  (void)thread;
  (void)frame;
#endif
  return 0;
}

static int n_arguments(const PyCodeObject *code) {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}

/* replacement(function, *arguments), with the frame's own references kept until it is cleared. */
static PyObject *call_replacement(PyObject *replacement, struct _PyInterpreterFrame *frame) {
  enum { ON_STACK = 24 };
  PyObject *small[ON_STACK + 2];
  const int n = n_arguments(FRAME_CODE(frame));
  PyObject **arguments = n <= ON_STACK ? small : PyMem_New(PyObject *, n + 2);
  if (arguments == NULL) return PyErr_NoMemory();

  arguments[1] = FRAME_FUNCTION(frame);
  memcpy(arguments + 2, frame->localsplus, (size_t)n * sizeof(PyObject *));
  Py_INCREF(replacement);
  PyObject *result =
      PyObject_Vectorcall(replacement, arguments + 1, (size_t)(n + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
  Py_DECREF(replacement);
  if (arguments != small) PyMem_Free(arguments);
  return result;
}

/* Asks the callback, with the hook off; returns the new mark (borrowed from co_extra) or NULL on error. */
static PyObject *ask(Scope *scope, PyObject *function, PyObject *code) {
  PyObject *callback = exchange_callback(scope, NULL);
  PyObject *answer = PyObject_CallOneArg(callback, function);
  Py_DECREF(exchange_callback(scope, callback));
  if (answer == NULL) return NULL;
  PyObject *mark = answer == Py_None ? skip_mark : answer;
  const int failed = set_mark(code, mark);
  Py_DECREF(answer);
  return failed ? NULL : mark;
}

static int is_function_call(const struct _PyInterpreterFrame *frame, int throwing) {
  const PyCodeObject *code = FRAME_CODE(frame);
  return !throwing && frame->owner == FRAME_OWNED_BY_THREAD && (code->co_flags & CO_OPTIMIZED) &&
         !(code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) &&
         PyFunction_Check(FRAME_FUNCTION(frame)) && IS_AT_START(frame);
}

/* A frame outside of all scopes, as it runs without this hook. */
static PyObject *evaluate_below(PyThreadState *thread, struct _PyInterpreterFrame *frame, int throwing) {
  if (n_scopes == 0 && is_set()) set_evaluator(previous_eval);  /* another evaluator has put ours back */
  if (previous_eval == _PyEval_EvalFrameDefault) return _PyEval_EvalFrameDefault(thread, frame, throwing);
  struct _PyInterpreterFrame *outer = chained;
  chained = frame;
  PyObject *result = previous_eval(thread, frame, throwing);
  chained = outer;
  return result;
}

static PyObject *evaluate(PyThreadState *thread, struct _PyInterpreterFrame *frame, int throwing) {
  if (frame == chained) return _PyEval_EvalFrameDefault(thread, frame, throwing);  /* came round */
  Scope *scope = scope_of(thread);
  if (scope == NULL) return evaluate_below(thread, frame, throwing);
  if (scope->callback == NULL || thread->tracing || !is_function_call(frame, throwing)) {
    return _PyEval_EvalFrameDefault(thread, frame, throwing);
  }
  PyObject *code = (PyObject *)FRAME_CODE(frame);
  PyObject *mark = NULL;
  GET_CODE_EXTRA(code, extra_index, (void **)&mark);
  if (mark == NULL) {
    mark = ask(scope, FRAME_FUNCTION(frame), code);
    if (mark == NULL) {
      clear_frame(thread, frame);
      return NULL;
    }
  }
  if (mark == skip_mark) return _PyEval_EvalFrameDefault(thread, frame, throwing);

  PyObject *result = call_replacement(mark, frame);
  if (clear_frame(thread, frame) < 0) Py_CLEAR(result);
  return result;
}

PyDoc_STRVAR(enable_doc,
             "enable(callback, /)\n--\n\n"
             "Turn the hook on in this thread and context; returns the callback that was active (None if it was off).\n\n"
             "`callback(function)` is asked once for each code object that has no mark yet and returns a\n"
             "replacement or None. Give the result to disable().");

static PyObject *enable(PyObject *module, PyObject *callback) {
  (void)module;
  if (!PyCallable_Check(callback)) return PyErr_Format(PyExc_TypeError, "enable() needs a callable");
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    return PyErr_Format(PyExc_RuntimeError, "longhand's capture runs in the main interpreter only, and this is a "
                                            "sub-interpreter: call what is not compiled, or use frontend='dynamo'");
  }
  Scope *scope = open_scope();
  if (scope == NULL) return NULL;
  scope->depth++;
  if (!is_set()) {
    previous_eval = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    set_evaluator(evaluate);
  }
  return exchange_callback(scope, Py_NewRef(callback));
}

PyDoc_STRVAR(disable_doc, "disable(previous, /)\n--\n\nUndo one enable(), whose result `previous` is.");

static PyObject *disable(PyObject *module, PyObject *previous) {
  (void)module;
  Scope *scope = scope_of(PyThreadState_Get());
  if (scope == NULL) return PyErr_Format(PyExc_RuntimeError, "disable() without enable() in this thread");
  PyObject *callback = exchange_callback(scope, previous == Py_None ? NULL : Py_NewRef(previous));
  if (--scope->depth == 0) {
    Py_CLEAR(scope->callback);
    close_scope(scope);
  }
  if (n_scopes == 0 && is_set()) set_evaluator(previous_eval);
  Py_DECREF(callback);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(pause_doc,
             "pause()\n--\n\nTurn the hook off in this thread until resume(); returns what to give to resume().");

static PyObject *pause_hook(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  Scope *scope = scope_of(PyThreadState_Get());
  if (scope == NULL) Py_RETURN_NONE;
  return exchange_callback(scope, NULL);
}

PyDoc_STRVAR(resume_doc, "resume(paused, /)\n--\n\nUndo pause(), whose result `paused` is.");

static PyObject *resume_hook(PyObject *module, PyObject *paused) {
  (void)module;
  Scope *scope = scope_of(PyThreadState_Get());
  if (scope != NULL) Py_DECREF(exchange_callback(scope, paused == Py_None ? NULL : Py_NewRef(paused)));
  Py_RETURN_NONE;
}

PyDoc_STRVAR(mark_doc,
             "mark(code, replacement, /)\n--\n\n"
             "Set what calls of `code` run: a callable, SKIP, or None to have the callback asked again.");

static PyObject *mark(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (n != 2 || !PyCode_Check(args[0])) return PyErr_Format(PyExc_TypeError, "mark(code, replacement)");
  if (set_mark(args[0], args[1] == Py_None ? NULL : args[1]) < 0) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(mark_of_doc, "mark_of(code, /)\n--\n\nThe mark of `code`: a callable, SKIP or None.");

static PyObject *mark_of(PyObject *module, PyObject *code) {
  (void)module;
  if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "mark_of() needs a code object");
  PyObject *found = NULL;
  GET_CODE_EXTRA(code, extra_index, (void **)&found);
  return Py_NewRef(found == NULL ? Py_None : found);
}

/* An attribute of the object itself: a compiled module gives its original's for all others. */
static PyObject *own_attribute(PyObject *object, const char *name) {
  PyObject *text = PyUnicode_InternFromString(name);
  if (text == NULL) return NULL;
  PyObject *value = PyObject_GenericGetAttr(object, text);
  Py_DECREF(text);
  return value;
}

/* Lets compiled._tidy(exception) change the traceback of the exception that is on its way. */
static void tidy_exception(PyObject *compiled) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != NULL) PyException_SetTraceback(value, traceback);
  PyObject *tidy = own_attribute(compiled, "_tidy");
  PyObject *done = tidy == NULL ? NULL : PyObject_CallOneArg(tidy, value);
  if (done == NULL) {
    PyErr_Clear();
  } else {
    Py_XDECREF(traceback);
    traceback = PyException_GetTraceback(value);
  }
  Py_XDECREF(tidy);
  Py_XDECREF(done);
  PyErr_Restore(type, value, traceback);
}

PyDoc_STRVAR(call_doc,
             "call(compiled, /, *args, **kwargs)\n--\n\n"
             "compiled._original(*args, **kwargs) with the hook on for compiled._asked. As `__call__` of a class it\n"
             "shows in no traceback, and compiled._tidy(exception) may take other frames out of it. Where there is\n"
             "another evaluator compiled._set_dynamo(None) turns it off in this thread, and gives what turns it on.");

static PyObject *call(PyObject *module, PyObject *args, PyObject *kwargs) {
  if (PyTuple_GET_SIZE(args) == 0) return PyErr_Format(PyExc_TypeError, "call() needs what is compiled");
  PyObject *compiled = PyTuple_GET_ITEM(args, 0), *result = NULL, *previous = NULL;
  PyObject *set_dynamo = NULL, *dynamo = NULL;
  PyObject *original = own_attribute(compiled, "_original");
  PyObject *asked = own_attribute(compiled, "_asked");
  PyObject *rest = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
  int ready = original != NULL && asked != NULL && rest != NULL;
  if (ready && !is_alone()) {
    set_dynamo = own_attribute(compiled, "_set_dynamo");
    dynamo = set_dynamo == NULL ? NULL : PyObject_CallOneArg(set_dynamo, Py_None);
    ready = dynamo != NULL;
  }
  if (ready) previous = enable(module, asked);
  if (previous != NULL) {
    result = PyObject_Call(original, rest, kwargs);
    if (result == NULL) tidy_exception(compiled);
  }
  if (previous != NULL || dynamo != NULL) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (previous != NULL) Py_XDECREF(disable(module, previous));
    if (dynamo != NULL) Py_XDECREF(PyObject_CallOneArg(set_dynamo, dynamo));
    PyErr_Restore(type, value, traceback);
  }
  Py_XDECREF(previous);
  Py_XDECREF(dynamo);
  Py_XDECREF(set_dynamo);
  Py_XDECREF(original);
  Py_XDECREF(asked);
  Py_XDECREF(rest);
  return result;
}

static PyMethodDef call_method = {"call", (PyCFunction)(void (*)(void))call, METH_VARARGS | METH_KEYWORDS, call_doc};

static PyMethodDef methods[] = {
    {"enable", enable, METH_O, enable_doc},
    {"disable", disable, METH_O, disable_doc},
    {"pause", pause_hook, METH_NOARGS, pause_doc},
    {"resume", resume_hook, METH_O, resume_doc},
    {"mark", (PyCFunction)(void (*)(void))mark, METH_FASTCALL, mark_doc},
    {"mark_of", mark_of, METH_O, mark_of_doc},
    {"type_tags", type_tags, METH_O, type_tags_doc},
    {"same_code", (PyCFunction)(void (*)(void))same_code, METH_FASTCALL, same_code_doc},
    {"same_tags", (PyCFunction)(void (*)(void))same_tags, METH_FASTCALL, same_tags_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "longhand.capture._frame_eval",
    .m_doc = "The frame hook of longhand's capture; see the head of capture/_frame_eval.c.",
    .m_size = -1,
    .m_methods = methods,
};

/* The code of a function that does nothing (PyCode_NewEmpty's raises when it runs). */
static PyCodeObject *compile_empty_function(void) {
  PyObject *module_code = Py_CompileString("lambda: None", "<longhand>", Py_eval_input);
  if (module_code == NULL) return NULL;
  PyObject *function_code = PyTuple_GetItem(((PyCodeObject *)module_code)->co_consts, 0);
  Py_XINCREF(function_code);
  Py_DECREF(module_code);
  return (PyCodeObject *)function_code;
}

PyMODINIT_FUNC PyInit__frame_eval(void) {
#ifdef Py_GIL_DISABLED
  return PyErr_Format(PyExc_ImportError, "longhand's frame hook relies on the GIL, which this Python was built without");
#endif
  extra_index = REQUEST_CODE_EXTRA(free_extra);
  if (extra_index < 0) return PyErr_Format(PyExc_RuntimeError, "no slot for code extras is free");
  skip_mark = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
  empty_code = compile_empty_function();
  PyObject *module = PyModule_Create(&definition);
  if (module == NULL || skip_mark == NULL || empty_code == NULL) return NULL;
  if (PyModule_AddObjectRef(module, "SKIP", skip_mark) < 0) return NULL;
  if (PyModule_AddType(module, &held_paths_type) < 0) return NULL;
  if (PyModule_AddIntConstant(module, "REMEMBERS", PY_VERSION_HEX < 0x030D0000) < 0) return NULL;
  PyObject *function = PyCFunction_New(&call_method, NULL);
  PyObject *method = function == NULL ? NULL : PyInstanceMethod_New(function);  /* binds as a method */
  if (method == NULL || PyModule_AddObjectRef(module, "call", method) < 0) return NULL;
  return module;
}
