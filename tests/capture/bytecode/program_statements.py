"""More statements for random programs: sets, iterators, classes, views, generators, exceptions and their messages."""

PRELUDE = """
import collections
import dataclasses
import functools
import itertools

@dataclasses.dataclass
class Record:
    first: object
    second: int = 2

    def total(self, k=1):
        return self.first * self.second + k

class Parent:
    kind = 1

    def __init__(self, value):
        self.value = value
        self.log = []

    def apply(self, k):
        self.log.append(k)
        return self.value * k + self.kind

    def __len__(self):
        return len(self.log)

    def __getitem__(self, key):
        return self.value + key

    def __iter__(self):
        yield self.value
        yield self.value * 2

    def __eq__(self, other):
        return isinstance(other, Parent) and len(self.log) == len(other.log)

    def __hash__(self):
        return 7

class Child(Parent):
    kind = 3

    def apply(self, k):
        return super().apply(k) - len(self)

    @classmethod
    def of(cls, value):
        return cls(value + 1)

    @staticmethod
    def half(value):
        return value * 0.5

    def __getattr__(self, name):
        if name.startswith("x_"):
            return len(name)
        raise AttributeError(name)

class Halt(Exception):
    def __init__(self, code, *more):
        super().__init__(code, *more)
        self.code = code
"""


class MoreStatements:
    """What Writer may write in wide programs; it gives `pick`, `name`, `emit`, `tensor`, `number` and the like."""

    KINDS = (
        "set",
        "string",
        "record",
        "child",
        "views",
        "zipped",
        "mapped",
        "match",
        "message",
        "sorted",
        "slices",
        "walrus",
        "starred",
        "coroutine",
        "item",
        "cleanup",
        "cells",
        "mapping_loop",
    )

    def write_string(self, level, scope):
        n = self.number(scope)
        self.emit(
            level,
            "log.append("
            + self.pick(
                f"f'{{{n}:>4}}|{{flag!r}}'",
                f"'-'.join(str(i) for i in range(abs({n}) % 4))",
                f"('ab' * 2)[{n} % 3:]",
                "'%s:%d' % ('a', len(items))",
                f"str(table.get('k{self.random.randint(0, 2)}') is None)",
                "repr(sorted(table, key=str))",
            )
            + ")",
        )

    def write_record(self, level, scope):
        name, x, n = self.name("r"), self.tensor(scope), self.number(scope)
        self.emit(level, f"{name} = Record({x}, {self.pick(n, 'second=' + n)})")
        self.emit(
            level,
            self.pick(
                f"{x} = {name}.total({n})",
                f"{name}.second += {n}",
                f"table['r'] = {name}",
                f"log.append(dataclasses.replace({name}, first=1).second)",
            ),
        )
        self.emit(level, f"log.append({name}.second)")

    def write_child(self, level, scope):
        name, x, n = self.name("c"), self.tensor(scope), self.number(scope)
        self.emit(level, f"{name} = {self.pick('Child', 'Child.of', 'Parent')}({x})")
        for _ in range(self.random.randint(1, 3)):
            self.emit(
                level,
                self.pick(
                    f"{x} = {name}.apply({n})",
                    f"{x} = {name}[{n}]",
                    f"log.append(len({name}))",
                    f"{name}.value = {x}",
                    f"log.append(getattr({name}, 'x_y', None))",
                    f"log.append(hasattr({name}, 'nothing'))",
                    f"{x} = sum({name})",
                    f"log.append({name} == Child({x}))",
                    f"table['c'] = {name}",
                    f"{x} = Child.half({x})",
                    f"first, *others = {name}",
                ),
            )

    def write_match(self, level, scope):
        n = self.number(scope)
        self.emit(level, f"match {self.pick(n, 'items', '(flag, ' + n + ')', 'table')}:")
        inner = self.nested(scope) | {"conditional": True}
        for case in self.random.sample(["0", "[first, *others]", "(True, 2)", "{'k0': found}", "int()"], 2):
            self.emit(level + 1, f"case {case}:")
            self.block(level + 2, inner, 1)
        self.emit(level + 1, "case _:")
        self.block(level + 2, inner, 1)

    def write_message(self, level, scope):
        n = self.number(scope)
        inner = self.nested(scope) | {"conditional": True}
        self.emit(level, "try:")
        self.block(level + 1, inner, 1)
        self.emit(
            level + 1,
            self.pick(
                f"raise Halt({n})",
                f"raise Halt({n}, 'more')",
                "raise KeyError('k')",
                "undefined_name",
                f"table[{n}]['z']",
                "(1, 2)[5]",
                "None.nothing",
                "'a' + 1",
                "x.view(77)",
                "assert not items, 'assertion'",
                "1 / (n - n)",
                "del missing_local",
            ),
        )
        self.emit(level, "except Halt as error:")
        self.emit(
            level + 1, self.pick("log.append(error.code)", "log.append(error.args)", "log.append(str(error))")
        )
        self.emit(level, "except Exception as error:")
        self.emit(
            level + 1,
            self.pick("log.append(type(error).__name__)", "log.append(str(error)[:40])", "noisy(x)"),
        )
        self.block(level + 1, inner, 1)

    def write_walrus(self, level, scope):
        name, n = self.name("m"), self.number(scope)
        self.emit(level, f"if ({name} := {n}) > {self.random.randint(-1, 3)} or not ({name} and flag):")
        self.block(level + 1, self.nested(scope) | {"conditional": True}, 1)
        self.emit(level, f"log.append({name} if {name} < 3 <= 5 else -{name})")

    def write_coroutine(self, level, scope):
        name, x, n = self.name("g"), self.tensor(scope), self.number(scope)
        self.emit(level, f"def {name}():")
        self.emit(level + 1, f"got = yield {n}")
        self.emit(level + 1, "try:")
        self.emit(level + 2, f"yield {x} * 2 if got is None else got")
        self.emit(level + 1, "finally:")
        self.emit(level + 2, f"log.append('end of {name}')")
        self.emit(level + 1, f"return {n}")
        self.emit(level, f"{name}_ = {name}()")
        self.emit(level, f"log.append(next({name}_))")
        self.emit(
            level,
            self.pick(
                f"log.append({name}_.send({n}))",
                f"for part in {name}_: {x} = {x} + part",
                f"{name}_.close()",
                f"log.append(len(list({name}_)))",
            ),
        )

    def write_item(self, level, scope):
        x = self.tensor(scope)
        if not self.has_breaks:
            self.emit(level, "pass")
            return
        self.emit(
            level,
            self.pick(
                f"log.append(round({x}.sum().item(), 2) == 0)",
                f"log.append({x}.shape[int(({x}[0, 0] > 0).item())])",
                f"{x} = {x} * ({x}.mean().item() > 0) + 1",
                f"log.append({x}.numel() + int(({x} > 0).sum()))",
                f"log.append(len({x}.tolist()))",
            ),
        )

    def write_cleanup(self, level, scope):
        name = self.name("h")
        inner = self.nested(scope) | {"conditional": True, "inner": True, "functions": []}
        self.emit(level, f"def {name}():")
        self.emit(level + 1, f"for i in range({self.random.randint(1, 3)}):")
        self.emit(level + 2, "try:")
        self.emit(level + 3, f"if {self.condition(inner)}:")
        self.emit(level + 4, self.pick("continue", "break", f"return {self.number(inner)}", "raise Halt(i)"))
        self.emit(level + 3, self.pick("log.append(i)", "noisy(i)"))
        self.emit(level + 2, "finally:")
        self.emit(level + 3, self.pick("log.append('f')", "noisy('f')"))
        self.emit(level + 1, "return 'end'")
        self.emit(level, "try:")
        self.emit(level + 1, f"log.append({name}())")
        self.emit(level, "except Halt as halt:")
        self.emit(level + 1, "log.append(halt.code)")

    def write_cells(self, level, scope):
        name, n = self.name("k"), self.number(scope)
        self.emit(level, f"{name} = [lambda: i + {n} for i in range(2)]")
        self.emit(
            level,
            self.pick(
                f"log.extend(f() for f in {name})",
                f"{name}.append(lambda: len(log))",
                f"log.append({name}[0]())",
            ),
        )
        self.emit(level, f"log.append({name}[-1]())")
