"""Statements of random programs on containers: sets, views of dicts, zip and map, sorting, slices, spreads."""


class ContainerStatements:
    """Part of `programs.Writer`; the names of these statements are in `program_statements`."""

    def write_set(self, level, scope):
        n = self.number(scope)
        name = self.name("s")
        self.emit(level, f"{name} = {{'zeta', 'b', 'k{self.random.randint(0, 2)}'}} | set(map(str, items))")
        self.emit(
            level,
            self.pick(
                f"{name}.add(str({n}))",
                f"{name}.discard('b')",
                f"{name} -= {{'zeta'}}",
                f"{name} &= {{'b', 'zeta', str({n})}}",
                f"{name} = {name} ^ {{'q'}}",
            ),
        )
        self.emit(
            level,
            self.pick(
                f"log.extend({name})",
                f"log.append(sorted({name}))",
                f"log.append(len({name}))",
                f"log.append('b' in {name})",
                f"for part in {name}: log.append(part)",
            ),
        )

    def write_views(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        name = self.name("v")
        self.emit(
            level,
            f"{name} = "
            + self.pick(
                f"{x}[0]",
                f"{x}[:, :2]",
                f"{x}.t()",
                f"{x}.reshape(-1)",
                f"{x}.unsqueeze(0)",
                f"{x}.detach()",
                f"{x}.expand(2, *{x}.shape)[0]",
                f"{x}.split(1)[0]",
                f"{x}.diagonal()",
            ),
        )
        self.emit(
            level,
            self.pick(
                f"{name}.add_({n})",
                f"{name}.mul_(0.5)",
                f"{name}[0] = {n}",
                f"{name} += 1",
                f"{name}.copy_({name} * 2)",
                f"{x}.sub_({n})",
                f"{name}.zero_()",
                f"{name}.clamp_(-1, 1)",
            ),
        )
        self.emit(
            level,
            self.pick(
                f"log.append({name}.clone())", f"{x} = {x} + {name}.sum()", f"box.items.append({name})"
            ),
        )

    def write_zipped(self, level, scope):
        index, value = self.name("i"), self.name("p")
        over = self.pick(
            "enumerate(items[:3])",
            "enumerate(list(table), 1)",
            "zip(items[:2], 'abc')",
            "zip(range(2), [x, y], strict=True)",
            "enumerate(reversed(items[:3]))",
            "itertools.product('ab', (1,))",
            "sorted(table.items(), key=str)[:2]",
        )
        self.emit(level, f"for {index}, {value} in {over}:")
        self.block(level + 1, self.nested(scope) | {"conditional": True}, self.random.randint(1, 2))
        self.emit(level + 1, f"log.append(({index}, {value} if isinstance({value}, str) else 0))")

    def write_mapped(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        self.emit(
            level,
            self.pick(
                f"{x} = functools.reduce(lambda a, b: a + b, map(lambda v: {x} * v, (1, {n})))",
                f"log.extend(map(lambda v: v * 2, filter(lambda v: v != {n}, (1, 2, 3))))",
                f"log.extend(itertools.chain([{n}], (i for i in range(2))))",
                f"log.append(max([3, {n}, -2], key=abs))",
                f"log.extend(itertools.islice(itertools.count({n}), 2))",
                f"log.append(any(v == {n} for v in (1, 2)))",
                f"{x} = next(t for t in ({x}, y) if t is not None)",
                "log.extend(itertools.accumulate([1, 2, 3]))",
            ),
        )

    def write_sorted(self, level, scope):
        n = self.number(scope)
        self.emit(
            level,
            self.pick(
                f"items.sort(key=lambda v: -v if isinstance(v, int) else {n})",
                "items = sorted(items, key=str, reverse=True)",
                f"log.append(min(items, default={n}))",
                "log.append([*reversed(items)])",
                "log.append(items.count(1))",
                "log.append(items.index(7) if 7 in items else -1)",
            ),
        )

    def write_slices(self, level, scope):
        n = self.number(scope)
        self.emit(
            level,
            self.pick(
                f"items[1:] = [{n}]",
                f"items[:0] = [{n}, {n}]",
                "del items[2:]",
                "items *= 1",
                f"items += ({n},)",
                "log.extend(items[::-1][:2])",
                "log.append(items[-2:])",
                "head, tail = items[:1], items[1:]",
            ),
        )

    def write_starred(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        name = self.name("q")
        self.emit(level, f"def {name}(a, /, b=1, *rest, c=2, **more):")
        self.emit(level + 1, f"return a * b + c + len(rest) + sum(v for v in more.values()) + {n}")
        self.emit(
            level,
            f"{x} = "
            + self.pick(
                f"{name}({x}, *[2, 3], **{{'c': {n}, 'z': 1}})",
                f"{name}({x}, c={n})",
                f"functools.partial({name}, {x}, d=1)(2)",
                f"(lambda *a, **k: {name}(*a, **k))({x}, b={n})",
            ),
        )

    def write_mapping_loop(self, level, scope):
        key, value = self.name("a"), self.name("b")
        self.emit(level, f"for {key}, {value} in {self.pick('table', 'dict(table)')}.items():")
        self.block(level + 1, self.nested(scope) | {"conditional": True}, 1)
        self.emit(level + 1, f"log.append(str({key}))")
