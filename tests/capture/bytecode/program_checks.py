"""Programs that look at values and raise; in a module of its own, for pytest rewrites the asserts of tests."""

import torch
from torch.distributions import Categorical, Normal


def normal(x):
    made = Normal(x * 2, x)
    return made.rsample() + made.log_prob(x)


def categorical(x):
    return Categorical(probs=x).sample() + 1


def asserts(x):
    y = x * 2
    assert (y > 0).all(), "must be positive"
    return y.sqrt()


def raises_if_any(x):
    if bad := (x < 0).any():
        raise ValueError(f"{x.shape} {bad}")
    if x.dim() > 1 and not x.isfinite().all():
        raise RuntimeError("not finite")
    return x.sqrt() + 1


def in_a_helper(x):
    return asserts(x) + raises_if_any(x)


def with_cleanup(x):
    try:
        return in_a_helper(x) * 2
    finally:
        x.shape  # noqa: B018


def under_a_manager_of_torch(x):
    with torch.no_grad():
        return in_a_helper(x) * 3


def catches(x):
    try:
        return asserts(x)
    except AssertionError:
        return x * 0


def swallows(x):
    class Swallow:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            return True

    with Swallow():
        return asserts(x)
    return x * 0


def returns_in_finally(x):
    try:
        y = asserts(x)
    finally:
        return x * 5  # noqa: B012
    return y


def decides(x):
    return x * 2 if (x > 0).all() else x * 3


def raises_either_way(x):
    if (x > 0).all():
        raise ValueError("positive")
    raise KeyError("others")


def checks_then_writes(x, state):
    assert (x > 0).all()
    state.add_(1)
    return x * state


def writes_then_checks(x, state):
    state.add_(1)
    assert (x > 0).all()
    return x * state


def draws_writes_and_checks(x, state):
    state.copy_(torch.rand_like(state))
    noise = torch.randn(4)
    assert (x > 0).all()
    return state + noise


def writes_through_a_view_and_checks(x, rows):
    rows[0] += 1
    assert (x > 0).all()
    return rows * 2


def asserts_by_torch(x):
    y = x * 2
    torch._assert((y > 0).all(), "must be positive")
    return y.sqrt()


def checks_all_by_torch(x):
    torch._check_tensor_all(x > 0)
    return x.sqrt()


def checks_all_with_a_message(x):
    """As transformers' torch_compilable_check does it."""
    text = f"values {x} of {x.shape} {x.sum()!r:}"

    def message():
        return text

    torch._check_tensor_all_with(ValueError, x > 0, message if callable(message) else lambda: message)
    return x.sqrt()


def checks_something_else(x):
    torch._check_tensor_all(x)
    return x.sqrt()
