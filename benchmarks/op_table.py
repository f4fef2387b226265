"""docs/ops.md: what becomes of each op of core ATen. ``python -m benchmarks.op_table --write docs/ops.md``.

Which ops are refused, and why, is what a sweep of samples found: ``python -m tests.autograd.every_sample --refusals
benchmarks/refused_ops.json`` keeps it.
"""

from __future__ import annotations

import argparse
import enum
import json
import math
import textwrap
from pathlib import Path

import torch

from longhand.capture.functionalize import decompositions
from longhand.lower import lowering, registry

REFUSED = Path(__file__).parent / "refused_ops.json"


class Fate(enum.Enum):
    """What becomes of an op, in the words of the page's headings."""

    KERNEL = "Generated kernels"
    VIEW = "Views"
    GONE = "Gone"
    DECOMPOSED = "Decomposed"
    DATA = "Outside of graphs"
    LIBRARY = "Library calls"


_WORDS = {
    Fate.KERNEL: (
        "Loops that fuse with others. Complex numbers, reductions of nothing and tables of whole numbers (which have "
        "no NaN for positions out of range) are left to ATen; so is a lone op that ATen does as well."
    ),
    Fate.VIEW: "Maps of positions: they copy nothing, and fuse into whatever reads them.",
    Fate.GONE: "Nothing is left of them in inference.",
    Fate.DECOMPOSED: "Written out in ops of the other kinds when the model is captured, as torch.export does.",
    Fate.DATA: (
        "The size or the value of their result depends on data. `longhand.compile` runs them between two graphs. "
        "A unit of `longhand generate` calls ATen for them and for what takes a tensor of such a size; in training, "
        "and where the code goes on by such a number, they are refused, with the line."
    ),
    Fate.LIBRARY: "Calls of ATen in model.py, with a comment: cuBLAS, cuDNN, oneDNN, sorting, scattering, FFT.",
}


# What capture rewrites to another op, which is the one that is lowered.
_WRITTEN_AS = {torch.ops.aten.native_group_norm.default: torch.ops.aten.group_norm.default}


def core_ops() -> list[torch._ops.OpOverload]:
    """The ops that torch tags as core ATen, less those that only read a size or write to `out`."""
    # dir(torch.ops.aten) holds only what the process has used.
    names = sorted(
        {
            name.partition(".")[0]
            for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::")
        }
    )
    packets = [getattr(torch.ops.aten, name.removeprefix("aten::")) for name in names]
    ops = [getattr(packet, overload) for packet in packets for overload in packet.overloads()]
    return [
        op
        for op in ops
        if torch.Tag.core in op.tags and not str(op).startswith("aten.sym_") and not op._schema.is_mutable
    ]


def fate(op: torch._ops.OpOverload) -> Fate:
    """What becomes of one op."""
    assert lowering.lower  # its import fills the registry
    op = _WRITTEN_AS.get(op, op)
    name = decompositions.packet_name(op)
    if op in registry.VIEWS or name in decompositions.RESHAPES:
        return Fate.VIEW
    if name in decompositions.FRESH_IDENTITIES | decompositions.ALIAS_IDENTITIES | decompositions.DROPOUTS:
        return Fate.GONE
    if op in registry.LOWERINGS:
        return Fate.KERNEL
    if not decompositions.is_kept(op):
        return Fate.DECOMPOSED
    if {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(op.tags):
        return Fate.DATA
    return Fate.LIBRARY


def page() -> str:
    """The text of docs/ops.md."""
    by_fate: dict[Fate, dict[str, list[str]]] = {kind: {} for kind in Fate}
    for op in core_ops():
        name, _, overload = str(op).removeprefix("aten.").rpartition(".")
        by_fate[fate(op)].setdefault(name, []).append(overload)
    version = torch.__version__.partition("+")[0]
    lines = [
        "# What becomes of each op of core ATen",
        "",
        *textwrap.wrap(
            f"Made by `python -m benchmarks.op_table --write docs/ops.md` with PyTorch {version}, which tags these "
            f"{len(core_ops())} overloads as core ATen. Ops that a person writes as one call (`layer_norm`, "
            "`cross_entropy`, `linear`, `conv2d`, ...) stay whole besides: "
            "`capture/functionalize/decompositions.py` lists them.",
            118,
        ),
    ]
    for kind, ops in by_fate.items():
        count = sum(map(len, ops.values()))
        spelled = [
            f"`{name}`" if overloads == ["default"] else f"`{name}` ({', '.join(overloads)})"
            for name, overloads in ops.items()
        ]
        lines += ["", f"## {kind.value}: {count}", "", *textwrap.wrap(_WORDS[kind], 118), ""]
        lines += textwrap.wrap(", ".join(spelled) + ".", 118, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*lines, *_refused()]) + "\n"


# What counts as right; where eager itself raises, or there is nothing to differentiate, there is no case.
_RIGHT = ("RIGHT", "NEAR", "EAGER", "MORE")
_NO_CASE = ("RAISES", "NOTHING")
_CONFIDENCE = 1.96  # standard deviations: 95%


def _least(n_right: int, n_cases: int) -> float:
    """What share of all is right at least, by what is right in a sample (Wilson's interval)."""
    share, z2 = n_right / n_cases, _CONFIDENCE**2
    middle = share + z2 / (2 * n_cases)
    half = _CONFIDENCE * math.sqrt(share * (1 - share) / n_cases + z2 / (4 * n_cases**2))
    return (middle - half) / (1 + z2 / n_cases)


def _counted(counts: dict[str, dict[str, int]], *, is_whole: bool) -> list[str]:
    """The table of what became of the cases of each door and step; of a part with what it says of all."""
    of_all = "" if is_whole else " of all, at least (95%) |"
    lines = [f"| how | cases | right |{of_all} of these in eager | refused | wrong | crash | no case |"]
    lines.append("|---" * (7 if is_whole else 8) + "|---|")
    for mode, own in counts.items():
        n_cases = sum(own.values()) - sum(own.get(kind, 0) for kind in _NO_CASE)
        n_right = sum(own.get(kind, 0) for kind in _RIGHT)
        parts = [own.get(kind, 0) for kind in ("EAGER", "REFUSED", "WRONG", "CRASH")]
        parts.append(sum(own.get(kind, 0) for kind in _NO_CASE))
        shares = f"{n_right:,} ({n_right / n_cases:.2%})"
        shares += "" if is_whole else f" | {_least(n_right, n_cases):.2%}"
        lines.append(f"| {mode} | {n_cases:,} | {shares} | {' | '.join(f'{part:,}' for part in parts)} |")
    return lines


def _refused() -> list[str]:
    """The part of the page on what a sweep found."""
    kept = json.loads(REFUSED.read_text())
    refused: dict[str, dict[str, dict[str, str]]] = kept["refused"]
    bad = ", ".join(f"`{op}`" for op in kept["bad"])
    newer = ", ".join(f"`{op}`" for op in kept.get("right with newer", ()))
    mended = ", ".join(f"`{op}`" for op in kept.get("mended", ()))
    run = kept["runs"][0]
    n_samples = kept.get("all samples")
    drawn = (
        f"each of its {n_samples:,} samples"
        if n_samples
        else "samples drawn by a seed, one of each pair first"
    )
    swept = (
        f"`python -m tests.autograd.every_sample` ran {kept['pairs']:,} of the {run['pairs']:,} pairs of an op and a "
        f"dtype in PyTorch's operator database ({', '.join(kept['dtypes'])}; {kept['ops']} ops), {run['date']}, with "
        f"PyTorch {run['torch']} and Python {run['python']} on the CPU: {drawn}, "
        f"{kept['cases']:,} cases in all. A case is a sample through one door in one step, its values and "
        "gradients compared with eager's and with float64's. Where eager itself raises, or finds nothing but zeros to "
        "differentiate, there is no case to be right in. "
        + (f"Wrong, or an error that nobody wrote for people: {bad}. " if bad else "")
        + (
            f"The pairs that were wrong, crashed or were refused ran once more after mends, of code or of the judge: "
            f"{mended} were bad before. "
            if mended
            else ""
        )
        + (
            f"Refused there, and right with PyTorch {torch.__version__.partition('+')[0]}: {newer}."
            if newer
            else ""
        )
    )
    words = (
        "An op in this table may be refused, or run in eager, for some of its samples only; what is mended since that "
        "run is not in it. What `generate` refuses it refuses with the line and the reason; what `compile` does not "
        "take runs in eager, is right, and says so."
    )
    lines = [
        "",
        "## Every op, in every dtype",
        "",
        *textwrap.wrap(swept, 118),
        "",
        *_counted(kept["counts"], is_whole=bool(n_samples)),
    ]
    lines += ["", "## Refused, or run in eager", "", *textwrap.wrap(words, 118), ""]
    lines += ["| how | why | ops |", "|---|---|---|"]
    for mode, reasons in refused.items():
        lines += [
            f"| {mode} | {reason} | {', '.join(f'`{op}`' for op in ops)} |" for reason, ops in reasons.items()
        ]
    return lines


def main() -> None:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the file; else it is printed")
    arguments = parser.parse_args()
    if arguments.write:
        arguments.write.write_text(page())
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
