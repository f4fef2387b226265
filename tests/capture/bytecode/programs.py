"""Random programs: control flow, containers, closures, objects, mutation, exceptions, breaks, tensor operations."""

import linecache
import random

from tests.capture.bytecode import program_classes, program_statements
from tests.capture.bytecode.program_basics import BasicStatements
from tests.capture.bytecode.program_containers import ContainerStatements
from tests.capture.bytecode.program_features import FeatureStatements
from tests.capture.bytecode.program_objects import ObjectStatements
from tests.capture.bytecode.program_tensors import TensorStatements

PRELUDE = """
import torch

class Box:
    def __init__(self, value, items=None):
        self.value = value
        self.items = items if items is not None else []

    def bump(self, k):
        self.value = self.value + k
        return self.value

    @property
    def twice(self):
        return self.value * 2

class Swallow:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return len(self.log)

    def __exit__(self, kind, value, trace):
        self.log.append("out" if kind is None else kind.__name__)
        return kind is KeyError

def noisy(value):
    STATE.append(len(STATE))
    print("", end="")
    return value

STATE = []
"""


# From here on programs have every kind of statement; earlier seeds stay what they were.
FIRST_WIDE = 10_000
# From here on also every feature, other arguments, and longer programs.
FIRST_WIDEST = 100_000


class Writer(
    BasicStatements,
    program_statements.MoreStatements,
    ContainerStatements,
    FeatureStatements,
    TensorStatements,
    ObjectStatements,
):
    """Writes one program.

    Args:
        seed: Equal seeds, equal programs.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.is_wide = seed >= FIRST_WIDE
        self.is_widest = seed >= FIRST_WIDEST
        self.lines = []
        self.n_names = 0
        self.has_breaks = self.random.random() < 0.6

    def pick(self, *choices):
        return self.random.choice(choices)

    def name(self, prefix):
        self.n_names += 1
        return f"{prefix}{self.n_names}"

    def tensor(self, scope):
        return self.random.choice(scope["tensors"])

    def number(self, scope):
        return self.random.choice([*scope["numbers"], str(self.random.randint(-2, 5))])

    def tensor_text(self, scope, depth=0):
        x = self.tensor(scope)
        if depth > 1:
            return x
        other = self.tensor_text(scope, depth + 1)
        n = self.number(scope)
        options = [
            f"({x} + {other})",
            f"({x} * {n} - {other})",
            f"torch.tanh({x})",
            f"{x}.clamp(-2, 2)",
            f"torch.where({x} > {other}, {x}, {n} * 1.0)",
            f"({x} / (1 + {other}.abs()))",
            f"{x}.t().t().contiguous()",
            f"torch.cat([{x}, {other}])[: {x}.shape[0]]",
            f"{x}.flip(0)",
            f"({x} - {x}.mean(-1, keepdim=True))",
            f"box.bump({n})" if not scope["inner"] else x,
            f"(box.twice + {x})",
            f"max([{x}, {other}], key=lambda t: {n})",
        ]
        if scope["functions"]:
            options.append(f"{self.random.choice(scope['functions'])}({x}, {n})")
        if self.has_breaks:
            options.append(f"noisy({x})")
        return self.random.choice(options)

    def condition(self, scope):
        n, m = self.number(scope), self.number(scope)
        options = [
            f"{n} < {m}",
            f"{n} % 2 == 0",
            f"len(items) > {self.random.randint(0, 4)}",
            f"flag and {n} != {m}",
            f"{m} in items",
            f"'k{self.random.randint(0, 2)}' in table",
            f"not isinstance({n}, str)",
        ]
        if self.has_breaks:
            options.append(f"{self.tensor(scope)}.sum() > 0")
        return self.random.choice(options)

    def emit(self, level, text):
        self.lines.append("    " * level + text)

    def block(self, level, scope, count):
        for _ in range(count):
            self.statement(level, scope)

    def nested(self, scope):
        return {key: list(value) if isinstance(value, list) else value for key, value in scope.items()}

    def statement(self, level, scope):
        kinds = [
            "assign",
            "assign",
            "assign",
            "inplace",
            "number",
            "list",
            "dict",
            "attribute",
            "if",
            "for",
            "unpack",
            "function",
            "try",
            "with",
            "comprehension",
            "closure",
            "raise",
            "alias",
            "generator",
            "write",
            "while",
        ]
        if level > 3:
            kinds = kinds[:8]
        elif self.is_wide:
            kinds += self.KINDS
            if self.is_widest:
                kinds += (*self.FEATURES, *self.OBJECTS) * 2
        getattr(self, "write_" + self.random.choice(kinds))(level, scope)

    def program(self):
        """The text of a module with ``program(x, y, n, flag, items, table, box)``; the widest take a ``layer`` too."""
        scope = {
            "tensors": ["x", "y"],
            "numbers": ["n"],
            "functions": [],
            "conditional": False,
            "inner": False,
        }
        layer = ", layer" if self.is_widest else ""
        self.emit(0, f"def program(x, y, n, flag, items, table, box{layer}):")
        self.emit(1, "log = []")
        self.emit(1, "total = x * 0")
        self.emit(1, "def step(k): return total" if self.random.random() < 0.2 else "pass")
        self.block(1, scope, self.random.randint(4, 9))
        kept = ", ".join([*scope["tensors"], *scope["numbers"]])
        self.emit(1, f"return {kept}, items, table, box, log, total{layer}")
        more = program_statements.PRELUDE if self.is_wide else ""
        if self.is_widest:
            more += program_classes.PRELUDE
        return PRELUDE + more + "\n".join(self.lines) + "\n"


def load(seed):
    """(the module's namespace, its text)."""
    text = Writer(seed).program()
    file = f"<string program {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace = {"__name__": f"program_{seed}"}
    exec(compile(text, file, "exec"), namespace)
    return namespace, text
