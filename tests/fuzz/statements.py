"""The statements that random programs are made of, by kind; each draws operands that fit and writes one line."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from tests.fuzz.elementwise import binary, choice, exact, mask, unary, whole
from tests.fuzz.operands import dim_of, is_bool, is_float, is_whole
from tests.fuzz.programs import Known, Writer
from tests.fuzz.rows import beside_maximum, loss, masked_row, written_by_operator

Draw = random.Random

_DTYPES = ("float32", "bfloat16", "float16", "float64", "float32")


def view(writer: Writer) -> bool:
    """The same elements in another order or shape."""
    x = writer.choose()
    if x is None:
        return False
    value, draw = writer[x], writer.draw
    if not value.dim():
        return writer.add(f"{x.name}.expand({draw.randint(1, 5)})", x.is_exact)
    a, b = dim_of(writer, value), dim_of(writer, value)
    size = value.shape[a]
    start = draw.randint(0, max(0, size - 1))
    end, step = draw.randint(start, size), draw.choice((1, 1, 2, 3))
    colons = ":, " * (a % value.dim())
    order = list(range(value.dim()))
    draw.shuffle(order)
    forms = [
        f"{x.name}.transpose({a}, {b})",
        f"{x.name}.permute({order})",
        f"{x.name}[{colons}{start}:{end}:{step}]",
        f"{x.name}[{colons}{start}]",
        f"{x.name}[..., None]",
        f"{x.name}.unsqueeze({a})",
        f"{x.name}.flip({a})",
        f"{x.name}.flip({sorted({a % value.dim(), b % value.dim()})})",
        f"{x.name}.reshape(-1)",
        f"{x.name}.reshape({_other_shape(draw, value)})",
        f"{x.name}.flatten({min(a % value.dim(), b % value.dim())})",
        f"{x.name}.narrow({a}, {start}, {end - start})",
        f"{x.name}.unfold({a}, {min(size, 2)}, {draw.choice((1, 2))})",
        f"{x.name}.diagonal(0, {a}, {b})",
        f"{x.name}.split({max(1, size // 2)}, {a})[{draw.choice((0, -1))}]",
        f"{x.name}.chunk(3, {a})[-1]",
        f"{x.name}.unbind({a})[-1]",
        f"{x.name}.expand({draw.choice((2, 3))}, {', '.join(['-1'] * value.dim())})",
        f"{x.name}.squeeze()",
        f"{x.name}.movedim({a}, {b})",
    ]
    return writer.add(draw.choice(forms), x.is_exact)


def _other_shape(draw: Draw, value: Tensor) -> str:
    n, factors = value.numel(), []
    while n > 1 and len(factors) < 3:
        divisor = draw.choice([d for d in range(2, n + 1) if n % d == 0][:6])
        factors.append(divisor)
        n //= divisor
    return ", ".join(map(str, [*factors, n]))


def join(writer: Writer) -> bool:
    """Several values in one, or one with a border."""
    x = writer.choose()
    if x is None:
        return False
    value, draw = writer[x], writer.draw
    a = dim_of(writer, value)
    kind = draw.random()
    if kind < 0.5:
        alike = [x]
        for _ in range(draw.randint(1, 4)):
            other = writer.choose(lambda t: t.dim() == value.dim())
            alike.append(other if other is not None else x)
        names = ", ".join(one.name for one in alike)
        exactly = all(one.is_exact for one in alike)
        return writer.add(f"torch.{draw.choice(('cat', 'stack'))}([{names}], {a})", exactly)
    forms = [
        f"F.pad({x.name}, ({draw.randint(0, 3)}, {draw.randint(-1, 2)}))",
        f"F.pad({x.name}, (1, 0, 0, 2), value=0.5)",
        f'F.pad({x.name}[None], (1, 1), mode="reflect")',
        f'F.pad({x.name}[None], (2, 1), mode="replicate")',
        f"{x.name}.roll({draw.randint(-3, 3)}, {a})",
        f"{x.name}.roll(({draw.randint(1, 3)}, -1), (0, {a}))",
        f"{x.name}.repeat_interleave(2, {a})",
        f"{x.name}.repeat({', '.join(str(draw.choice((1, 2))) for _ in range(value.dim() + 1))})",
        f"torch.cat([{x.name}, {x.name}.flip({a})], {a})",
        f"torch.tril({x.name}, {draw.randint(-1, 2)})",
        f"torch.triu({x.name}, {draw.randint(-1, 2)})",
    ]
    return writer.add(draw.choice(forms), x.is_exact)


def position(writer: Writer) -> bool:
    """Values that follow from positions."""
    x = writer.choose(lambda t: t.dim() > 0)
    if x is None:
        return False
    value, draw = writer[x], writer.draw
    a = dim_of(writer, value)
    size, last = value.shape[a], value.shape[-1]
    device = f"device={x.name}.device"
    forms = [
        (f"{x.name} + torch.arange({last}, {device})", False),
        (f"torch.arange({size}, {device})[:, None] >= torch.arange({last}, {device})", True),
        (f"{x.name}.masked_fill(torch.arange({last}, {device}) > {last // 2}, 0)", x.is_exact),
        (f"torch.full_like({x.name}, 2)", True),
        (f"torch.zeros({last}, {device}) + {x.name}", x.is_exact),
        (f"torch.linspace(-1, 1, {last}, {device}) * {x.name}", False),
        (f"F.one_hot(torch.arange({min(size, 30)}, {device}) % 4, 4)", True),
        (f"torch.arange({last}, {device}).remainder(3)", True),
        (f"torch.arange(0, {2 * last}, 2, {device}, dtype=torch.float32) * 0.1 + {x.name}", False),
        (f"torch.eye({min(last, 30)}, {device})", True),
    ]
    return writer.add(*draw.choice(forms))


def gather(writer: Writer) -> bool:
    """Elements picked by positions that are data."""
    x, index = writer.choose(lambda t: t.dim() > 0 and 0 not in t.shape), writer.choose(is_whole, exact=True)
    if x is None or index is None:
        return False
    value, draw = writer[x], writer.draw
    a = dim_of(writer, value) % value.dim()
    size = value.shape[a]
    picked = draw.choice(
        (
            f"({index.name} % {size})",
            f"{index.name}.clamp(0, {size - 1})",
            f"({index.name} % {size} - {size})",
        )
    )
    flat = f"{picked}.reshape(-1)"
    colons = ":, " * a
    forms = [
        f"{x.name}[{colons}{picked}.long()]",
        f"{x.name}.index_select({a}, ({index.name} % {size}).reshape(-1).int())",
        f"{x.name}.take(({index.name} % {value.numel()}).long())",
        f"F.embedding(({index.name} % {value.shape[0]}).long(), {x.name})",
        f"{x.name}[{colons}{flat}[:3].long()]",
    ]
    if writer[index].dim() == value.dim():
        forms += [
            f"{x.name}.gather({a}, ({index.name} % {size}).long())",
            f"torch.take_along_dim({x.name}, ({index.name} % {size}).long(), {a})",
        ]
    if value.dim() > 1:
        rows = f"({index.name} % {value.shape[0]}).long()"
        forms.append(f"{x.name}[{rows}, ({index.name} % {value.shape[1]}).long()]")
        forms.append(f"{x.name}[torch.arange({value.shape[0]}, device={x.name}.device), 0]")
    return writer.add(draw.choice(forms), x.is_exact)


def scatter(writer: Writer) -> bool:
    """Writes to positions that are data, into a copy."""
    x = writer.choose(lambda t: t.dim() > 0 and 0 not in t.shape and t.dtype is not torch.bool)
    index = writer.choose(is_whole, exact=True)
    if x is None or index is None:
        return False
    value, draw = writer[x], writer.draw
    a = dim_of(writer, value) % value.dim()
    size = value.shape[a]
    source = writer.choose(lambda t: t.dtype is value.dtype)
    order = list(range(size))
    draw.shuffle(order)
    chosen = f"torch.tensor({order[: draw.randint(1, min(size, 5))]}, device={x.name}.device)"
    picked = f"({index.name} % {size}).long()"
    forms = [
        f"{x.name}.index_fill({a}, {chosen}, 2)",
        f"{x.name}.scatter({a}, {picked}, 1)",
        f"{x.name}.index_add({a}, {picked}.reshape(-1), {x.name}.index_select({a}, {picked}.reshape(-1)))",
        f"{x.name}.index_copy({a}, {chosen}, {x.name}.flip({a}).index_select({a}, {chosen}))",
    ]
    if source is not None:
        forms += [
            f"{x.name}.scatter_add({a}, {picked}, {source.name})",
            f"torch.zeros_like({x.name}).index_put(({picked},), {source.name}, accumulate=True)",
            f"torch.zeros_like({x.name}).scatter_reduce({a}, {picked}, {source.name}, 'amax')",
            f"torch.select_scatter({x.name}, {source.name}, {a}, {draw.randrange(size)})",
            f"torch.slice_scatter({x.name}, {source.name}, {a}, 0, {max(1, size // 2)})",
        ]
    return writer.add(draw.choice(forms), False)


def reduction(writer: Writer) -> bool:
    """Sums and the like over any dimensions."""
    x = writer.choose(is_float)
    if x is None:
        return False
    value, draw = writer[x], writer.draw
    dims = sorted(draw.sample(range(value.dim()), draw.randint(1, value.dim()))) if value.dim() else []
    over = f"{dims}, keepdim={draw.random() < 0.4}" if dims else "()"
    one = f"{dim_of(writer, value)}, keepdim={draw.random() < 0.4}"
    forms = [
        (f"{x.name}.sum({over})", False),
        (f"{x.name}.mean({over})", False),
        (f"{x.name}.var({over}, correction=0)", False),
        (f"{x.name}.std({one})" if value.dim() else f"{x.name}.sum()", False),
        (f"torch.logsumexp({x.name}, {over})", False),
        (f"torch.linalg.vector_norm({x.name}, 2, {over})", False),
        (f"{x.name}.prod({one})" if value.dim() else f"{x.name}.prod()", False),
        (f"{x.name}.sum()", False),
        (f"{x.name}.amax({over})", x.is_exact),
        (f"{x.name}.amin({over})", x.is_exact),
        (f"{x.name}.max()", x.is_exact),
        (f"{x.name}.sum({over}, dtype=torch.float32)", False),
    ]
    if x.is_exact:
        forms += [
            (f"{x.name}.argmax({one})", True),
            (f"{x.name}.argmin({one})", True),
            (f"{x.name}.max({one})[0]", True),
            (f"{x.name}.max({one})[1]", True),
            (f"({x.name} > 0).any({one})", True),
            (f"({x.name} > 0).all({one})", True),
            (f"({x.name} != 0).sum({over})", True),
            (f"({x.name} > 0.5).float().mean({over})", False),
        ]
    return writer.add(*draw.choice(forms))


def whole_reduction(writer: Writer) -> bool:
    """Reductions of whole numbers and bools."""
    x = writer.choose(lambda t: not t.dtype.is_floating_point, exact=True)
    if x is None:
        return False
    one = f"{dim_of(writer, writer[x])}, keepdim={writer.draw.random() < 0.4}"
    forms = ("sum", "any", "all", "amax", "amin", "argmax", "prod", "cumsum")
    word = writer.draw.choice(forms)
    return writer.add(f"{x.name}.{word}({one if word != 'cumsum' else one.split(',')[0]})", True)


def norm(writer: Writer) -> bool:
    """Softmax, norms, and what else has two passes over a row."""
    x = writer.choose(lambda t: is_float(t) and t.dim() > 0)
    if x is None:
        return False
    value, draw = writer[x], writer.draw
    a, last = dim_of(writer, value), value.shape[-1]
    # Of a row with infinity eager on CUDA makes NaN where 4 does not divide its length, and 0 where it does.
    limited = f"{x.name}.clamp(-1e4, 1e4)"
    # Of squares beyond float32 eager's layer_norm makes NaN where some of its threads have no element (infinity times
    # none: 4, 100 columns on an H200, 768 on a CPU), else 0 (5, 768, 1000 columns there): no rule that one could keep.
    fitting = f"torch.where({x.name}.isinf(), {x.name}, {x.name}.clamp(-1e17, 1e17))"
    fitting = x.name if value.dtype is torch.float16 else fitting
    forms = [
        f"F.softmax({x.name}, {a})",
        f"F.log_softmax({x.name}, {a})",
        f"F.softmax({x.name}, {a}, dtype=torch.float32)",
        f"F.layer_norm({fitting}, ({last},))",
        f"F.rms_norm({limited}, ({last},))",
        f"F.normalize({x.name}, dim={a})",
        f"{x.name} - {x.name}.mean({a}, keepdim=True)",
        f"{x.name} * {x.name}.square().mean(-1, keepdim=True)",
        f"({x.name} - {x.name}.amax({a}, keepdim=True)).exp()",
        f"F.layer_norm({fitting}, {tuple(value.shape[-2:])})",
    ]
    return writer.add(draw.choice(forms), False)


def scan(writer: Writer) -> bool:
    """Running sums and products."""
    x = writer.choose(lambda t: is_float(t) and t.dim() > 0)
    if x is None:
        return False
    a = dim_of(writer, writer[x])
    forms = (
        f"{x.name}.cumsum({a})",
        f"({x.name} * 0.1 + 1).cumprod({a})",
        f"torch.logcumsumexp({x.name}, {a})",
    )
    return writer.add(writer.draw.choice(forms), False)


def cast(writer: Writer) -> bool:
    """Another dtype."""
    x = writer.choose()
    if x is None:
        return False
    value, word = writer[x], writer.draw.choice(_DTYPES)
    wide = {"float32", "float64"} if value.dtype.itemsize < 4 else {"float64"}
    keeps = word in wide and (is_float(value) or value.dtype.itemsize < 4)
    return writer.add(f"{x.name}.to(torch.{word})", x.is_exact and keeps)


def product(writer: Writer) -> bool:
    """A matrix product, which no kernel does."""
    x = writer.choose(lambda t: is_float(t) and t.dim() == 2)
    if x is None:
        return False
    y = writer.choose(lambda t: t.dtype is writer[x].dtype and t.dim() == 2)
    form = writer.draw.choice((f"{x.name} @ {x.name}.t()", f"{x.name}.t() @ {y.name if y else x.name}"))
    return writer.add(form, False)


def _beside(writer: Writer, into: Known, other: Known | None) -> str:
    """What is read while `into` is written: itself, or memory of its own.

    What a write leaves that reads another view of the same memory is undefined, and eager only raises for some of them.
    """
    if other is None or other.name == into.name:
        return into.name
    one, two = writer[into].untyped_storage(), writer[other].untyped_storage()
    return f"{other.name}.clone()" if one.data_ptr() == two.data_ptr() else other.name


def write(writer: Writer) -> bool:
    """In place, into what the program made or was given."""
    draw = writer.draw
    own = [one for one in writer.known if one.is_own]
    given = [one for one in writer.known if one.name.startswith("x")]
    arguments = {argument.name: argument for argument in writer.arguments}
    given = [one for one in given if not arguments[one.name].trains]
    pool = given if (draw.random() < 0.2 or not own) and given else own
    if not pool:
        return False
    into = draw.choice(pool[-3:])
    value = writer[into]
    other = writer.choose(lambda t: t.dtype is value.dtype)
    condition = writer.choose(is_bool, exact=True)
    name, by = into.name, _beside(writer, into, other)
    shifted = f"{name}.clone()" if by == name else by
    exactly = into.is_exact and (other is None or other.is_exact)
    forms = [
        (f"{name}.mul_(2)", into.is_exact),
        (f"{name}.add_({by})", False),
        (f"{name}.copy_({by})", exactly),
        (f"{name}[1:] = {shifted}[:-1]", exactly),
        (f"{name}[0] = {by}[-1]", exactly),
        (f"{name}[..., ::2] = 1", into.is_exact),
        (f"{name}[..., 0].add_(1)", into.is_exact and not is_float(value)),
        (f"{name}.zero_()", True),
        (f"{name}.clamp_(min=0)", into.is_exact),
        (f"{name}.t().mul_(3)", False),
        (f"{name}[torch.tensor([0], device={name}.device)] = {by}[-1:]", exactly),
        (f"{name}[:, 0] = {by}[:, -1]", exactly),
    ]
    if condition is not None:
        where = _beside(writer, into, condition)
        forms += [
            (f"{name}.masked_fill_({where}, 2)", into.is_exact),
            (f"{name}[{where}] = 1", into.is_exact),
        ]
    statement, is_exact = draw.choice(forms)
    return writer.write(statement, into, is_exact)


# Twice what kernels are mostly made of.
STATEMENTS = (
    *(unary, unary, binary, binary, view, view, view, join, join, choice, choice, reduction, reduction, norm),
    *(exact, whole, mask, position, gather, gather, scatter, whole_reduction, scan, cast, product, write),
    *(masked_row, beside_maximum, loss, written_by_operator),
)
