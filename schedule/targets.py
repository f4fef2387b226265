"""What a target can do, as frozen facts; nobody in schedule/ or emit/ asks which target it is.

A target is a device of torch's and the language that its kernels are written in. It is named by the device, or by the
language where that is not the device's own. docs/adding_a_target.md tells how to add one.
"""

from __future__ import annotations

import dataclasses

from longhand.errors import OptionError
from longhand.options import Device, Target


@dataclasses.dataclass(frozen=True)
class TargetFacts:
    """What decides how kernels for a target are planned and named. Tunables stand with the kernel schedules.

    Attributes:
        name: As a user names it.
        device: Where the tensors are.
        extension: Of a kernel's file, for README.md.
        holds_rows: Programs hold whole rows in registers; plain loops walk them again instead.
        has_online_softmax: A maximum and the sum of exponentials are worth finding in one pass.
        keeps_between_loops: What one loop over a row computed may wait in memory for the next: it stays in cache.
        copies_tiles: A tile copies what is contiguous along its rows before it is read.
        has_free_doubles: Sums in double cost little where they would show, and so do reciprocals.
        has_narrow_indices: Indices have 32 bits unless the plan says otherwise.
        stores_blocks_late: Others' results may be read by address while a program still writes its block.
        lists_hold_bools: Lists may be of tensors of bools.
        unrolls_windows: Loops over the places of a small window, or over a few rows, are unrolled: kernel schedules of
            their own have them.
        makes_alike: A tensor like one that was just made takes half the time; elsewhere memory is a pool's anyway.
        smallest_half: Rows whose halves are joined, rotated positions say, are walked half by half from this many
            columns in each on.
        prints_blocks: Statements are about blocks: each load has a line, and pointers have names of their own.
    """

    name: str
    device: Device
    extension: str
    holds_rows: bool = False
    has_online_softmax: bool = False
    keeps_between_loops: bool = False
    copies_tiles: bool = False
    has_free_doubles: bool = False
    has_narrow_indices: bool = False
    stores_blocks_late: bool = False
    lists_hold_bools: bool = True
    unrolls_windows: bool = False
    makes_alike: bool = False
    smallest_half: int = 8
    prints_blocks: bool = False


CPP = TargetFacts(
    "cpu", Device.CPU, "cpp", keeps_between_loops=True, copies_tiles=True, has_free_doubles=True
)
TRITON = TargetFacts(
    "cuda",
    Device.CUDA,
    "py",
    holds_rows=True,
    has_online_softmax=True,
    has_narrow_indices=True,
    stores_blocks_late=True,
    lists_hold_bools=False,  # in memory a byte, which a pointer made from an address cannot say to Triton
    unrolls_windows=True,
    makes_alike=True,
    # A store of less than a sector is written with the rest of it: halves of 8 took 2.6 times as long in bfloat16.
    smallest_half=16,
    prints_blocks=True,
)

TARGETS: dict[str, TargetFacts] = {facts.name: facts for facts in (CPP, TRITON)}


def facts_of(target: Target) -> TargetFacts:
    """What a target can do.

    Raises:
        OptionError: Nobody has told of this language.
    """
    facts = TARGETS.get(target.name)
    if facts is None:
        raise OptionError(
            f"Kernels in {target.name} were never told of in this process.",
            hint="Import the module that registers the target.",
        )
    return facts
