"""What functions that modules share are called, what they call the module that they are given, and their docstrings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longhand.schedule.named_plan import CallsAlike, CallSite
from longhand.schedule.names.words import further_words, identifier, listed, singular, snake_case

_WIDEST = 90  # of a docstring


def remark_on(alike: CallsAlike) -> str:
    """``What MgpstrA3Module does: char_a3_module, bpe_a3_module and wp_a3_module.``, as far as a line goes."""
    paths = list(dict.fromkeys(map(_reached, alike.sites)))
    first, last = paths[0], paths[-1]
    owner = first.rpartition("[")[0]
    span = f"{first} to {last.removeprefix(owner) if owner and last.startswith(f'{owner}[') else last}"
    wheres = (f": {listed(paths)}", f": {span}", f", in {len(alike.sites)} places")
    does = "does" if alike.share == 1 else "does in calls of its own"
    texts = [f"What {alike.class_name} {does}{where}." for where in wheres]
    return next((text for text in texts if len(text) <= _WIDEST), texts[-1])


def _reached(site: CallSite) -> str:
    """``blocks[3].attn`` of blocks.3.attn; ``blocks[i].attn`` in what all blocks do."""
    owner, _, position = site.root.rpartition(".")
    path = f"{owner}.[i]{site.path.removeprefix(site.root)}" if position.isdigit() else site.path
    parts = (
        f"[{part}]" if part.isdigit() else part if part == "[i]" else f".{part}" for part in path.split(".")
    )
    return "".join(parts).removeprefix(".")


def words_for_module(alike: CallsAlike) -> Iterator[str]:
    """What a function may call the module that it is given: by its attribute, or its list, or its class."""
    lasts = {_attribute(site.path) for site in alike.sites}
    if len(lasts) == 1:
        yield from lasts
    own = snake_case(alike.class_name)
    yield from (word for word in (own.rpartition("_")[2], "module") if word != own)
    yield from further_words("module")


def _attribute(path: str) -> str:
    """``self_attn``; ``block`` of those in a list of ``blocks``."""
    *owners, last = path.split(".")
    if not last.isdigit():
        return identifier(last)
    words = [one for one in owners if not one.isdigit()]
    return singular(identifier(words[-1])) if words else "layer"


def kernel_words(lines: Sequence[str]) -> list[str]:
    """The words in the names of the kernels that some lines call."""
    called = (
        line.removeprefix("kernels.").partition("(")[0] for line in lines if line.startswith("kernels.")
    )
    return [word for name in called for word in name.split("_") if word != "and"]
