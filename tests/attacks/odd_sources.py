"""Source lines whose quotation may end the comment, docstring or string that it stands in."""

import random

FRAGMENTS = (
    '"""',
    "'''",
    "\\\\",
    "\\U",
    "\\N",
    "\\x",
    "*/",
    "/*",
    "//",
    "??/",
    "#",
    "{{ 7 * 7 }}",
    "{% endfor %}",
    "{#",
    "`",
    "|",
    "<script>",
    "[red]",
    "%s",
    "$(touch EXECUTED)",
    "\\n",
    "\\",
    "\u2028",
    "\u2029",
    "\x85",
    "\x0c",
    "\u202e",
    "é🙂",
    "clang-format off",
    "fmt: off",
    "#define long short",
    "<<<<<<< ours",
    "EXECUTED",
    "sk-secret-",
    "0",
    " ",
)


def odd_lines(count, seed=0):
    """Statements ``x = f(x, "...")`` with odd strings and odd whitespace in them."""
    source = random.Random(seed)
    for number in range(count):
        text = "".join(source.choices(FRAGMENTS, k=source.randint(1, 5)))
        match number % 5:
            case 0:
                literal = repr(text)
            case 1:
                literal = "r" + _raw(text)
            case 2:
                literal = "f" + repr(text.replace("{", "{{").replace("}", "}}"))
            case 3:
                literal = '"""' + text.replace("\\", "").replace('"', "") + '\n    more"""'
            case _:
                literal = f"{text!r}  # {''.join(one for one in text if one.isprintable())}"
        gap = source.choice(("", " ", "  ", "\t", "\x0c"))
        yield f"x = kept({gap}x,{gap} {literal}\n    ) + {number}"


def _raw(text):
    text = "".join(one for one in text if one.isprintable() and one not in "\"'\\")
    return f'"{text}"'
