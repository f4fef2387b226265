"""Names that somebody may give to what a model holds, made to break out of the text that is written with them."""

import builtins
import keyword
import random

# What is a name to Python, and something else to a class, a template, C or the C++ headers.
_TEXT = """
    __x __private_ _ __ __x__ dtype _expected check _own_tensors members d torch torch_ kernels math nn nn_ F self_
    launch _graph runtime Weights buffer constant empty layer block layers shape NULL EOF INFINITY NAN M_PI errno
    linux std int float32 size_t int64_t GRAIN BLOCK N_THREADS main NDEBUG assert_ match case type_ print_ _holders
    _seen_weights weight bias x out result reference row col grid acc mask tl triton Py_None omp_get_num_threads
    __init_subclass__ \N{LATIN SMALL LIGATURE FI} \N{LATIN SMALL LETTER E WITH ACUTE} \N{FEMININE ORDINAL INDICATOR}
    \N{MICRO SIGN} \N{BLACK-LETTER CAPITAL H} \N{MATHEMATICAL BOLD SMALL X} \N{CJK UNIFIED IDEOGRAPH-540D}
    \N{LATIN CAPITAL LETTER I WITH DOT ABOVE} \N{LATIN SMALL LETTER DOTLESS I}
"""
IDENTIFIERS = _TEXT.split()
FRAGMENTS = (
    *"\"'\\`$#{}[]()<>|&;:,=+-*/%@!?~^ \t\n\r\0\v\f\x1b\x7f\x85",
    '"""',
    "'''",
    "*/",
    "/*",
    "??/",
    "\\U",
    "\\N{",
    "\\",
    "\u2028",
    "\u202e",
    "\ufeff",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "{# ",
    "[red]",
    "[/]",
    "<<<<<<< ours\n",
    "\n#define long short\n",
    "\nopen('EXECUTED', 'w')\n",
    "\")\nopen('EXECUTED', 'w')  #",
    '"+str(open("EXECUTED","w"))+"',
    "') or open('EXECUTED', 'w') or ('",
    '"""\nopen("EXECUTED", "w")\n"""',
    "0",
    "a",
    "_b",
    "🙂",
    "é",
)


def odd_names(count, seed=0):
    """Distinct names without dots (torch refuses those), words of Python and C first."""
    words = [
        *keyword.kwlist,
        *keyword.softkwlist,
        *IDENTIFIERS,
        *dir(builtins)[::9],
        "a b",
        'w"',
        "en-de",
        "1",
        "0a",
    ]
    names = dict.fromkeys(word for word in words if "." not in word)
    source = random.Random(seed)
    while len(names) < count:
        pieces = source.choices(FRAGMENTS, k=source.randint(1, 5))
        names[f"{source.choice(('', 'w', '_', '1'))}{''.join(pieces)}"] = None
    return list(names)[:count]
