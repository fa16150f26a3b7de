#include "Scopes.h"

#include "../recorder/Recorder.h"

namespace simacc {
namespace {

PyObject* scope_of_module = nullptr;  // dict: module -> scope number; owned by the Python half
PyObject* on_unknown = nullptr;       // called with a module that the dict does not hold

PyObject* set_scope_table(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyDict_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "set_scope_table(dict, on_unknown)");
    return nullptr;
  }
  Py_XSETREF(scope_of_module, Py_NewRef(args[0]));
  Py_XSETREF(on_unknown, Py_NewRef(args[1]));
  Py_RETURN_NONE;
}

// A global forward pre-hook: (module, args) -> None.
PyObject* enter_module(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 1 || scope_of_module == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "enter_module(module, args) before set_scope_table");
    return nullptr;
  }
  PyObject* scope = PyDict_GetItemWithError(scope_of_module, args[0]);
  if (scope == nullptr) {
    if (PyErr_Occurred() != nullptr) {
      return nullptr;
    }
    PyObject* made = PyObject_CallOneArg(on_unknown, args[0]);
    if (made == nullptr) {
      return nullptr;
    }
    push_scope(static_cast<int32_t>(PyLong_AsLong(made)));
    Py_DECREF(made);
  } else {
    push_scope(static_cast<int32_t>(PyLong_AsLong(scope)));
  }
  Py_RETURN_NONE;
}

// A global forward hook: (module, args, output) -> None; called also when the forward raised.
PyObject* leave_module(PyObject*, PyObject* const*, Py_ssize_t) {
  pop_scope();
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"set_scope_table", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(set_scope_table)), METH_FASTCALL, nullptr},
    {"enter_module", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(enter_module)), METH_FASTCALL, nullptr},
    {"leave_module", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(leave_module)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_scope_hooks(PyObject* module) {
  return PyModule_AddFunctions(module, methods);
}

}  // namespace simacc
