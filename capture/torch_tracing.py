"""The private names of torch that tell whether a call is traced: few, for loaded units ask. A test names each."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes as no_modes

__all__ = ["TorchDispatchMode", "n_listening", "n_transforms", "no_modes"]

# Tracers, FakeTensorMode and whatever else sees each operator of this thread.
n_listening = torch._C._len_torch_dispatch_stack

# Transforms of torch.func that are running in this thread.
n_transforms = torch._C._functorch.get_dynamic_layer_stack_depth
