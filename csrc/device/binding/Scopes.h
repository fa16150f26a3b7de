// Module hooks in C: they run twice per module call, so they cost as little as a hook can.
#pragma once

#include <Python.h>

namespace simacc {

// Adds to the module: set_scope_table(dict, on_unknown), enter_module, leave_module.
int add_scope_hooks(PyObject* module);

}  // namespace simacc
