"""Hooks of all modules' calls: they run for the user's modules, each once, also where they come after compilation."""

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks

import longhand


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x) * 2


REGISTER = {
    "after": lambda log: hooks.register_module_forward_hook(
        lambda module, given, result: log.append(type(module).__name__) or result + 1
    ),
    "before": lambda log: hooks.register_module_forward_pre_hook(
        lambda module, given: log.append(type(module).__name__) or (given[0] + 1,)
    ),
    "backward": lambda log: hooks.register_module_full_backward_hook(
        lambda module, given, result: log.append(type(module).__name__)
    ),
}


@pytest.mark.parametrize("name", REGISTER)
@pytest.mark.parametrize("is_late", [False, True])
def test_global_hooks_run_once_for_each_module_of_the_users(hook, name, is_late):
    torch.manual_seed(0)
    model, x = Model(), torch.randn(2, 3)
    seen = []
    for run in (model, longhand.compile(model)):
        log = []
        if is_late:
            run(x).sum().backward()
        handle = REGISTER[name](log)
        try:
            results = []
            for _ in range(2):
                results.append(run(x))
                results[-1].sum().backward()
        finally:
            handle.remove()
        results.append(run(x))
        seen.append((log, [one.detach() for one in results]))
    assert seen[0][0] == seen[1][0] and len(seen[0][0]) == 4
    torch.testing.assert_close(seen[0][1], seen[1][1])
