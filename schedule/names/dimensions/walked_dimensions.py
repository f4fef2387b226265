"""What an index is called that walks dimensions with words, and what the number of its places is called."""

from __future__ import annotations

import re
from collections.abc import Sequence

from longhand.schedule.names.words import plural, singular

# What the indices of dimensions are called, by the customary words for the sizes.
_INDEX_OF = {
    ("batch",): "batch",
    ("seq",): "position",
    ("batch", "seq"): "token",
    ("channels",): "channel",
    ("height",): "line",
    ("height", "width"): "pixel",
    ("n_rep",): "repeat",
}
_LENGTHS = "seq_len seq_length sequence_length slen q_len tgt_len q_length query_length src_len target_length"
_HEAD_DIMS = (
    "head_dim dim_head head_size attention_head_size attn_head_size d_head d_kv size_per_head head_features"
)
# Words of one meaning, whatever the numbers are: an index says of neither how many there are.
_MEANINGS = {
    **dict.fromkeys(("b", "B", "batch_size", "bsz", "bs", "n_batch", "num_batch", "n_batches"), "batch"),
    **dict.fromkeys(_LENGTHS.split(), "seq"),
    **dict.fromkeys(_HEAD_DIMS.split(), "head_dim"),
    **dict.fromkeys(("num_key_value_groups", "n_kv_groups", "kv_groups"), "n_rep"),
}
_IMAGE = ("batch", "channels", "height", "width")  # ``conv1_channels``: those of what a layer makes
_LONGEST = 24  # characters of a dimension's word that says a kernel's size
_SHORTEST = 3  # ``d`` says less than n_cols


def meant(words: Sequence[str]) -> tuple[str, ...]:
    """The customary words for what these mean: ``head_dim`` of attention_head_size."""
    return tuple(_MEANINGS.get(word, word) for word in words)


def index_of(words: Sequence[str], is_of_window: bool = False) -> str | None:
    """``head`` for n_heads, ``pixel`` for height and width together; None where there is no such word.

    Results of windows have a line and a column, as the windows do.
    """
    made = meant([word.removeprefix("out_") for word in words])
    parts = tuple(next((part for part in _IMAGE if word.endswith(f"_{part}")), word) for word in made)
    if parts in _INDEX_OF:
        return _INDEX_OF[parts]
    if is_of_window and parts == ("width",):
        return "column"
    if len(parts) == 2 and parts[0] == "batch":
        one = one_of_counted(parts[1])
        one = "channel" if parts[1] == "channels" else one
        return f"batch_{one}" if one else None  # one thing of one of them
    return one_of_counted(words[0]) if len(words) == 1 else None


def size_of(words: Sequence[str]) -> str | None:
    """``head_dim`` for the one dimension of that word: what is no number of things has no index of its own."""
    word = meant(words)[0] if len(words) == 1 else ""
    is_telling = re.fullmatch(r"[a-z]+(_[a-z]+)*", word) and _SHORTEST <= len(word) <= _LONGEST
    return word if is_telling and index_of(words) is None else None


def one_of_counted(word: str) -> str | None:
    """``head`` for n_heads, num_attention_heads and heads; None where a word is no number of things."""
    counted = re.fullmatch(r"(?:n|num)_([a-z_]{2,}s)|((?:[a-z_]+_)?heads)", word)
    if counted is None:
        return None
    things = (counted[1] or counted[2]).removeprefix("attention_")
    one = singular(things)
    return one if one != things == plural(one) else None


def shared_words(calls: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The words of the first call where all mean the same; ``n_heads`` of n_heads and n_kv_heads: both are heads."""
    if len({meant(words) for words in calls}) == 1:
        return calls[0]
    indices = {index_of(words) for words in calls}
    if len(indices) == 1:
        return calls[0] if None not in indices else ()
    nouns = [(index or "").split("_") for index in indices]
    common: list[str] = []
    while all(nouns) and len({noun[-1] for noun in nouns}) == 1:
        common.insert(0, nouns[0][-1])
        nouns = [noun[:-1] for noun in nouns]
    is_counted = all(len(words) == 1 and one_of_counted(words[0]) for words in calls)
    return (f"n_{plural('_'.join(common))}",) if is_counted and any(common) else ()
