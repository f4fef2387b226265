"""What may stand in a unit's files as a name, in Python and in C++; which names a scope has given away."""

from __future__ import annotations

import builtins
import itertools
import keyword
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator

# Builtins that users shadow all the time and that generated code never calls.
_HARMLESS = frozenset(
    {"input", "id", "type", "filter", "hash", "format", "vars", "bin", "next", "iter", "dir"}
)
_PYTHON = (
    frozenset(keyword.kwlist) | frozenset(dir(builtins)) - _HARMLESS | {"self", "torch", "nn", "F", "kernels"}
)
_CPP_TEXT = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const
    constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
    operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename union unsigned using virtual void volatile wchar_t while xor xor_eq std abs acos asin atan cbrt
    ceil cos cosh div erf erfc exp fabs floor fma fmax fmin fmod gamma hypot index isinf isnan j0 j1 jn labs log
    logb main max min modf pow random remainder rint round signal signbit sin sinh sqrt stdin stdout stderr tan
    tanh time trunc y0 y1 yn copysign drem exp10 fdim finite frexp ilogb ldexp lgamma lrint lround nan nearbyint
    nextafter nexttoward rand roundeven scalb scalbn significand sincos tgamma
"""
_CPP = frozenset(_CPP_TEXT.split())
# Words that the kernel templates use for their own lines.
_TEMPLATES_TEXT = """
    tl triton torch reference at pid in_row in_col in_range in_rows in_cols mask acc grid chunk tile block
    lane start end split row_start running_max running_sum new_max n_splits row_tiles col_tiles row_tile col_tile
    n_blocks col_blocks
    tiles rows cols
    fast_launch ceil_div next_power_of_2 libdevice times sign_of nan_maximum nan_minimum first_max first_min
    floor_quotient floor_remainder floor_quotient_float floor_remainder_float
"""
_CPP_TEMPLATES_TEXT = """
    begin end place kept sign maximum minimum maximum_ignoring_nan minimum_ignoring_nan floor_divide trunc_divide
    remainder_of_divisor_sign remainder_of_dividend_sign integer_power shift_left shift_right bfloat16 float16
    rounded_to_bfloat16 rounded_to_float16 exp2 expm1 log2 log10 log1p asinh acosh atanh atan2
    Tensor Exchange CPU tensor_class exchange take parameters arrange call plain_call method longhand_binding
"""
_TEMPLATES = frozenset(_CPP_TEMPLATES_TEXT.split()) | frozenset(_TEMPLATES_TEXT.split())
RESERVED_IN_MODULE = _PYTHON
RESERVED_IN_KERNEL = (_PYTHON - {"self", "nn", "F"}) | _CPP | _TEMPLATES
# What a C++ kernel's headers may define; they write most of it in capitals, as kernels write their tunables.
_MACRO = re.compile(
    r"NULL|EOF|NAN|INFINITY|MAXFLOAT|errno|linux|unix|i386|assert|alloca|issubnormal|math_errhandling"
    r"|HUGE_VAL\w*|S?NANF?\w*|(BIG|LITTLE|PDP)_ENDIAN|BYTE_ORDER|EXIT_\w+|FD_\w+|FP_\w+"
    r"|M_\w+|MATH_\w+|MB_CUR_MAX|NFDBITS|W[A-Z]+|RAND_MAX|BUFSIZ|SEEK_\w+|CHAR_BIT|PATH_MAX|L_tmpnam|P_tmpdir|[A-Z]+_MAX"
    r"|U?INT\w*_(C|MAX|MIN|WIDTH)|(PTRDIFF|SIG_ATOMIC|SIZE|WCHAR|WINT|[SU]?CHAR|U?SHRT|U?L?LONG|U?INT)_(MAX|MIN|WIDTH)"
    r"|E[A-Z0-9]{2,}|SIG[A-Z0-9]+|[a-z0-9_]+_t|Py\w*|PY_\w*|omp_\w+"
)
# What the runtime and the templates of model.py call their own.
_OWN_TEXT = """
    runtime kernels backward model launch empty Weights CudaGraph TrainingGraph buffer constant constants filters tie
    block layer load_constants channels_last conv2d check_tensor check_tensors check_dim check_weights check_condition
    check_size check_value check_text check_apart check_lists_apart check_mode check_frozen check_distinct
    check_is_plain parameters_of convolution_backward lying_as gradients_of looks_of or_none or_zeros
    own_types cudnn_attention cudnn_attention_backward by_position tensor_table buffers_named blas saved
    keep_for_backward kept_for_backward one_for_each kept_on_list kept_from_list of_layers of_module of_parameters
"""
OWN_WORDS = frozenset(_OWN_TEXT.split())


class GradientWord(str):
    """The word for the gradient of something: ``d_x``.

    Attributes:
        of: The word for that: ``x``.
    """

    __slots__ = ("of",)
    of: str

    def __new__(cls, of: str) -> GradientWord:
        made = super().__new__(cls, f"d_{of}")
        made.of = of
        return made


def as_gradient(word: str) -> str:
    """What a lock calls something that is known to be a gradient, as the word for that; any other name as it is."""
    made = GradientWord(word[len(GradientWord("")) :])
    return made if made == word and made.of else word


def undifferentiated(word: str) -> str:
    """``x`` of ``d_x``; any other word as it is, ``d_model`` of the user's too."""
    return word.of if isinstance(word, GradientWord) else word


def reworded(word: str, make: Callable[[str], str]) -> str:
    """A word that is made of another one; of the word for a gradient that for one again."""
    return GradientWord(make(word.of)) if isinstance(word, GradientWord) else make(word)


def identifier(text: str) -> str:
    """`text` as an identifier: other characters become underscores; a leading digit gets one before it."""
    word = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    return f"_{word}" if word[:1].isdigit() else word


def is_attribute(name: str) -> bool:
    """Whether ``self.NAME`` reaches an attribute of this name, in the body of any class.

    Not a keyword; not what Python reads as another name (``ﬁ`` is ``fi``) or mangles (``__x``).
    """
    is_mangled = name.startswith("__") and not name.endswith("__")
    return is_identifier(name) and not is_mangled


def is_identifier(name: str) -> bool:
    """Whether Python reads it as this very name."""
    return name.isidentifier() and not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name


def is_word(value: object) -> bool:
    """Whether it may be printed as a name, in Python and in C++."""
    return isinstance(value, str) and value.isascii() and len(value) <= 200 and is_identifier(value)


def own_name(name: str, taken: Iterable[str] = ()) -> str:
    """The user's name for a class, function or parameter, with ``_`` behind it where it stands for something else."""
    taken = {*taken, *OWN_WORDS, *RESERVED_IN_MODULE}
    word = name if is_attribute(name) else identifier(name) or "unnamed"
    while word in taken:
        word += "_"
    return word


def is_macro(name: str) -> bool:
    """Whether a header of C or Python may have given the name another meaning."""
    return _MACRO.fullmatch(name) is not None


def without_counter(name: str) -> str:
    """A node's name without the number that capture appended to make it unique: ``add_3`` is ``add``."""
    return re.sub(r"(_\d+)+$", "", name) or name


_SHORT_PIECES = re.compile(r"[A-Z][a-z][A-Z][a-z]?(?=[A-Z][a-z]|_|\d|$)")  # NeXt, ViT
_ACTIVATION = re.compile(r"(?:Re|Ge|Si|Se|Swi)G?LU")  # each of them is one word
_DIMENSIONS = re.compile(r"(?<=[a-z0-9])([1-4])D(?![a-z])")  # Block2D, which is no block 2 of d


def snake_case(name: str) -> str:
    """``LlamaRMSNorm`` is ``llama_rms_norm``, and ``ResNetBlock`` ``resnet_block``, as torchvision writes it.

    ``Conv2dReLU`` is ``conv2d_relu``, and ``XLNetLayer`` is ``xlnet_layer``, as ``SENet`` is ``senet``.

    So are FiLM and MoE, mixtures of experts: ``MixtralSparseMoEBlock`` is ``mixtral_sparse_moe_block``. Short pieces
    beside each other are: ``ConvNeXtBlock`` is ``conv_next_block``, and ``GroupViTModel`` is ``group_vit_model``.
    ``ResnetBlock2D`` is ``resnet_block_2d``: a ``d_`` of its own would say that it is a gradient.
    """
    in_capitals = re.sub(r"[A-Z]+Net(?![a-z])", lambda match: match[0].capitalize(), name)
    joined = re.sub(r"(?<=[A-Za-z0-9])Net(?![a-z])", "net", in_capitals)
    joined = joined.replace("MoE", "Moe").replace("FiLM", "Film")
    joined = _DIMENSIONS.sub(r"_\1d", joined)
    joined = _SHORT_PIECES.sub(lambda match: match[0].capitalize(), joined)
    joined = _ACTIVATION.sub(lambda match: match[0].capitalize(), joined)
    spaced = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", joined)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", spaced).lower()


def path_names(path: str) -> Iterator[str]:
    """Names for a dotted path, shortest first, positions in lists left out while a word is left.

    ``h.0.ln_1.weight`` gives ``weight``, ``ln_1_weight``, ``h_ln_1_weight``, and at last ``h_0_ln_1_weight``; the
    fourth layer of an nn.Sequential is ``layer_3``.
    """
    whole = path.split(".")
    if (
        len(whole) > 2 and whole[-2].isdigit()
    ):  # of a layer that a list holds: its place is all that tells which
        yield identifier(whole[-1])
        # Of lists in lists, the layer's own place says most: a word cannot begin with the place of the outer one.
        owner = "layer" if whole[-3].isdigit() else whole[-3]
        yield identifier("_".join((owner, *whole[-2:])))
    parts = [part for part in whole if not part.isdigit()]
    for start in range(len(parts) - 1, -1, -1):
        yield identifier("_".join(parts[start:]))
    if any(part.isdigit() for part in whole):
        yield whole_path(path)


def whole_path(path: str) -> str:
    """All of a path as one word. One that begins with a place in a list is a layer's: ``layer_1_attend``.

    With an underscore before the place it would be no field of a NamedTuple.
    """
    return identifier(f"layer_{path}" if path[:1].isdigit() else path)


def place_names(path: str, n_last: int, shared: Container[str] = ()) -> Iterator[str]:
    """Names for what stands in lists, by their places and the end of the path: ``stage_0_q_proj_weight``.

    Of lists in lists the outer place comes first, then the inner one, then both; more of the path only where that
    does not tell. None for a path without places.

    Args:
        path: ``encoder.stages.0.blocks.1.attention.q_proj.weight``.
        n_last: How many parts of its end are said at least: 2 for the module and the leaf.
        shared: Names of lists that several modules have one of: whose list it is comes first, ``decoder_layer_0_fc1``.
    """
    parts = path.split(".")
    places = [at for at, part in enumerate(parts) if at and part.isdigit() and not parts[at - 1].isdigit()]
    chosen = [[at] for at in places] + ([places] if len(places) > 1 else [])
    for more in range(max(len(parts), 1)):
        for some in chosen:
            heads = [f"{singular(parts[at - 1])}_{parts[at]}" for at in some]
            first = some[0] - 1
            if parts[first] in shared and first and not parts[first - 1].isdigit():
                heads.insert(0, parts[first - 1])
            below = [part for at, part in enumerate(parts) if at > some[-1] and _is_said(parts, at)]
            if more == 0 or n_last + more <= len(below):
                yield identifier("_".join((*heads, *below[-(n_last + more) :])))


def _is_said(parts: list[str], at: int) -> bool:
    """Whether a part of a path is neither a place nor the list that the place is in."""
    return not parts[at].isdigit() and not (at + 1 < len(parts) and parts[at + 1].isdigit())


def joined_names(before: str, word: str) -> str:
    """``self_attn_output`` of ``self_attn`` and ``attn_output``: what both say is said once."""
    first, second = before.split("_"), word.split("_") if word else []
    n_same = next(
        n for n in range(min(len(first), len(second)), -1, -1) if first[len(first) - n :] == second[:n]
    )
    return "_".join([*first, *second[n_same:]])


def with_place(word: str, place: str, owner: str) -> str:
    """A word with where it is of: ``stage_0_norm_mean`` of ``norm_mean``, ``stage_0_norm`` and the owner ``norm``."""
    return reworded(word, lambda of: joined_names(place, "" if of == owner else of.removeprefix(f"{owner}_")))


def layer_and_leaf(path: str) -> str:
    """``token_embedding_weight`` of ``model.token_embedding.weight``; ``layer_3_bias`` of a layer in a list."""
    *owners, leaf = path.split(".")
    positions: list[str] = []
    while owners and owners[-1].isdigit():
        positions.insert(0, owners.pop())
    owner = owners[-1] if owners else "layer" if positions else ""
    return identifier("_".join(word for word in (owner, *positions, leaf) if word))


def plural(word: str) -> str:
    """The plural of an axis's word: heads, batches."""
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def singular(word: str) -> str:
    """One of what a list's name says: exp_avg of exp_avgs."""
    for ending, one in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh")):
        if word.endswith(ending):
            return word.removesuffix(ending) + one
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def last_or_place(path: str) -> str:
    """The last word of a path, ``layers`` of encoder.layers; ``stage_1`` of stages.1."""
    *around, last = path.split(".")
    return f"{singular(around[-1])}_{last}" if around and last.isdigit() else last


def listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    items = list(words)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


_UNITS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_TENS = ("twent", "thirt", "fort", "fift", "sixt", "sevent", "eight", "ninet")
_TEENS = (
    "tenth",
    "eleventh",
    "twelfth",
    *(f"{ten}eenth" for ten in ("thirt", "fourt", "fift", "sixt", "sevent")),
)
_TO_TWENTY = (*_UNITS[1:], *_TEENS, "eighteenth", "nineteenth")
_ORDINALS = (*_UNITS[1:], "tenth")


def further_names(word: str) -> Iterator[str]:
    """Without an end: what else things of a name may be called: ``second_total``, ``third_total``; not twice so."""
    first, _, rest = word.partition("_")
    if rest and first in _TO_TWENTY:
        yield from (one for one in further_names(rest) if one != word)
    prefix = ""
    while True:
        for before in _TO_TWENTY:
            yield f"{prefix}{before}_{word}"
        for ten in _TENS:
            for before in (f"{ten}ieth", *(f"{ten}y_{unit}" for unit in _UNITS)):
                yield f"{prefix}{before}_{word}"
        prefix += "yet_"


def is_ordinal(word: str) -> bool:
    """Whether `further_names` begin with a word: ``second``."""
    return word in _TO_TWENTY


def ordinals(word: str) -> Iterator[str]:
    """``second_mean``, ``third_mean``: what is made again as the first of a name was."""
    yield from (f"{ordinal}_{word}" for ordinal in _ORDINALS)


def element_names(word: str, *, is_only: bool = False) -> Iterator[str]:
    """Without an end: what one element of a tensor is called where the tensor has the word: ``x_i``, ``x_j``.

    Of the only one that is read no position tells: ``lr_0``.
    """
    if is_only:
        yield f"{word}_0"
    yield from (f"{word}_{index}" for index in "ijklm")
    yield from further_names(word)


def first_free(words: Iterable[str], taken: Container[str]) -> str:
    """The first of the words that is not taken."""
    return next(word for word in words if word not in taken)


def list_of(word: str) -> str:
    """What the list of every layer's is called: ``q_projs``, and ``all_hidden_states`` of what is many already."""
    is_many = word != singular(word) and not word.endswith(("as", "os"))
    return f"all_{word}" if is_many else plural(word)


class Scope:
    """The names given out so far, each once."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._reserved = frozenset(reserved)
        self._taken: set[str] = set()

    def is_free(self, name: str) -> bool:
        """Whether `name` may still be given out."""
        return is_identifier(name) and name not in self._reserved and name not in self._taken

    def take(self, name: str) -> str:
        """Mark `name` as given out."""
        self._taken.add(name)
        return name

    def release(self, *names: str) -> None:
        """`names` may be given out again: nothing reads what they stood for any more."""
        self._taken.difference_update(names)

    def pick(self, candidates: Iterable[str]) -> str:
        """The first free candidate, marked as given out; the first one with a plain word before it if none is free."""
        seen = []
        for candidate in candidates:
            word = identifier(candidate)
            word = candidate if word == candidate else word  # a gradient's stays one
            if word.strip("_").isdigit():
                continue  # a place in a list alone says nothing
            if self.is_free(word):
                return self.take(word)
            if word:
                seen.append(word)
        last_resorts = (
            self._last_resorts(seen[0]) if seen else itertools.chain(["value"], self._last_resorts("value"))
        )
        for word in last_resorts:
            if self.is_free(word):
                return self.take(word)
        raise AssertionError("unreachable: the last resorts do not end")

    @staticmethod
    def _last_resorts(stem: str) -> Iterator[str]:
        return further_names(stem)


class KernelScope(Scope):
    """Names in the file of a kernel, where words in capitals are macros and tunables."""

    def is_free(self, name: str) -> bool:
        """Whether `name` may still be given out."""
        is_loud = len(name) > 1 and name == name.upper() and name != name.lower()
        return not is_loud and not is_macro(name) and super().is_free(name)

    @staticmethod
    def _last_resorts(stem: str) -> Iterator[str]:
        if is_macro(f"second_{stem}"):  # size_t, whatever stands before it
            stem += "_name"
            yield stem
        yield from further_names(stem)

    def pick(self, candidates: Iterable[str]) -> str:
        """The first free candidate; words in capitals in small letters."""
        return super().pick(one.lower() if len(one) > 1 and one.isupper() else one for one in candidates)
