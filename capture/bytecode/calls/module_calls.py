"""nn.Module.__call__: `forward`, with the hooks of forward calls around it; backward hooks are CPython's."""

from __future__ import annotations

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.entry.kept_by_hooks import tensors_among
from longhand.capture.bytecode.frames.frame import Frame
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.sources import attribute, root
from longhand.capture.bytecode.values.tracked import Obj, Value

__all__ = ["call_module", "run_hook"]

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def call_module(trace: Trace, module: Obj, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``module(*args, **kwargs)``: `forward`, where no hooks are registered."""
    state = vars(module.value)
    if any(state[name] for name in _HOOKS[2:]) or torch_private.has_global_module_hooks():
        raise Unsupported(f"a {type(module.value).__name__} with backward or global hooks is called")
    if state["_forward_hooks_always_called"]:  # torch's own code leaves them out where it is compiled
        raise Unsupported("a module with hooks that are called whatever is raised is called")
    if state.get("_compiled_call_impl") is not None:
        raise Unsupported("a compiled module is called")
    asked = trace.guards.constant(torch_private.has_global_module_hooks)
    trace.guards.add(root(asked, "torch.nn.modules.module"), "not {}()", "there are no global hooks")
    has_hooks = any(state[name] for name in _HOOKS)
    if module.source is not None and not has_hooks:
        # In its dict: CPython looks attributes up slowly where a class has a __getattr__, as every module's has.
        held = attribute(module.source, "__dict__")
        for name in _HOOKS:
            trace.guards.add(held, "not {}[" + repr(name) + "]", f"{module.source.name} has no {name}")
    trace.hooks.meet(hook for name in _HOOKS[:2] for hook in state[name].values())
    path = module.source.name if module.source is not None else type(module.value).__name__
    trace.modules.append((f"{id(module.value)}", path, type(module.value)))
    try:
        called = trace.get_attribute(module, "_call_impl" if has_hooks else "forward")
        return trace.call_value(called, args, kwargs)
    finally:
        trace.modules.pop()


def run_hook(trace: Trace, frame: Frame) -> Value:
    """Runs a forward hook's frame, and notes what it keeps."""
    before = tensors_among(trace.written_values())
    result = trace.run_frame(frame)
    trace.hooks.note(frame.code, before, tensors_among(trace.written_values()))
    return result
