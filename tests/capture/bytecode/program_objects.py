"""Statements of the widest random programs: objects with protocols of their own, modules, collections, numbers."""


class ObjectStatements:
    """Statements about objects; Writer gives `pick`, `name`, `emit`, `tensor`, `number` and the like."""

    OBJECTS = (
        "points",
        "frozen",
        "pairs",
        "vector",
        "slots",
        "custom_iterator",
        "layer",
        "dynamic_attributes",
        "class_inside",
        "enumeration",
        "collection",
        "arithmetic",
        "unpacking",
    )

    def write_points(self, level, scope):
        name, n, m = self.name("p"), self.number(scope), self.number(scope)
        self.emit(level, f"{name} = Point({n}, {self.pick(m, 'y=' + m)})")
        self.emit(
            level,
            self.pick(
                f"log.append({name} < Point({m}))",
                f"log.append({name} == Point({n}, {m}))",
                f"{name}.tags.append({n})",
                f"log.append({name}.seen)",
                f"log.append(dataclasses.astuple({name})[:2])",
                f"log.append([f.name for f in dataclasses.fields({name})])",
                f"log.append(repr({name}))",
                f"table['p'] = dataclasses.replace({name}, x={m})",
                f"log.append(sorted([{name}, Point({m})])[0].x)",
                f"log.append(dataclasses.asdict({name})['y'])",
            ),
        )
        self.emit(level, f"log.append(({name}.x, {name}.y, len({name}.tags)))")

    def write_frozen(self, level, scope):
        name, n, x = self.name("z"), self.number(scope), self.tensor(scope)
        self.emit(level, f"{name} = Frozen({n}, {x})")
        self.emit(
            level,
            self.pick(
                f"{x} = {name}.b + {name}.a",
                f"log.append(hash(Frozen({n})) == hash(Frozen({n})))",
                f"log.append({{Frozen({n}): 1}}[Frozen({n})])",
                f"log.append(Frozen({n}) in [Frozen(1), Frozen(2)])",
                f"table['z'] = {name}",
            ),
        )
        if self.random.random() < 0.3:
            self.emit(level, "try:")
            self.emit(level + 1, f"{name}.a = 1")
            self.emit(level, "except dataclasses.FrozenInstanceError as error:")
            self.emit(level + 1, "log.append(type(error).__name__)")

    def write_pairs(self, level, scope):
        name, n, x = self.name("p"), self.number(scope), self.tensor(scope)
        self.emit(level, f"{name} = Pair({n}, right={x})")
        self.emit(
            level,
            self.pick(
                f"{name} = {name}.swapped()",
                f"left, right = {name}",
                f"log.append({name}._fields)",
                f"log.append({name}[0])",
                f"{x} = {name}.right + {name}.left",
                f"log.append(list({name}._asdict()))",
                f"table['q'] = {name}",
                f"log.append(len({name}) + {name}.index({n}))",
            ),
        )

    def write_vector(self, level, scope):
        name, n, x = self.name("v"), self.number(scope), self.tensor(scope)
        self.emit(level, f"{name} = Vector({x})")
        for _ in range(self.random.randint(1, 3)):
            self.emit(
                level,
                self.pick(
                    f"{name} = {name} + {n}",
                    f"{name} = {n} + {name}",
                    f"{name} += {n}",
                    f"{name} = -{name} * {n}",
                    f"{name}.heat = {n}",
                    f"log.append('hot' if {name} else 'cold')",
                    f"{x} = {name}({n}, scale={n})",
                    f"log.append({n} in {name})",
                    f"{name}.first = {n}",
                    f"{x} = {x} + {name}.first",
                    f"{x} = {x} * 0 + {name}.norm",
                    f"log.append(min([{name}, Vector({x})]).heat)",
                    f"{x} = (Vector({x}) + {name}).data",
                    f"table['v'] = {name}",
                    f"log.append(hasattr({name}, 'norm') and callable({name}))",
                ),
            )

    def write_slots(self, level, scope):
        name, n = self.name("s"), self.number(scope)
        self.emit(level, f"{name} = Slotted({n})")
        self.emit(
            level,
            self.pick(
                f"{name}.b = {n}; log.append({name}.b)",
                f"log.append(hasattr({name}, 'b'))",
                f"log.append(getattr({name}, 'b', 'none'))",
                f"{name}.a += 1; log.append({name}.a)",
                f"del {name}.a; log.append(hasattr({name}, 'a'))",
            ),
        )

    def write_custom_iterator(self, level, scope):
        k = self.random.randint(0, 4)
        x = self.tensor(scope)
        self.emit(
            level,
            self.pick(
                f"log.extend(Count({k}))",
                f"log.append(list(zip(Count({k}), items)))",
                f"for c in Count({k}): {x} = {x} + c",
                f"log.append(max(Count({k}), default=-1))",
                f"first, *others = Count({k + 1})",
                f"log.append(dict(enumerate(Count({k}))))",
                f"log.append(next(iter(Count({k})), 'none'))",
                f"log.extend(itertools.chain(Count({k}), 'ab'))",
            ),
        )

    def write_layer(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        self.emit(
            level,
            self.pick(
                f"{x} = layer({x})",
                f"{x} = layer({x}, k={n})",
                f"layer.{self.pick('train', 'eval')}(); {x} = layer({x})",
                f"layer.scale = {n}; {x} = {x} * layer.scale",
                "layer.steps.zero_()",
                "log.append(layer.calls)",
                "log.append(layer.training)",
                "log.append(sorted(layer.state_dict()))",
                "log.append([name for name, _ in layer.named_parameters()])",
                "log.append(len(layer.inner))",
                f"{x} = {x} + layer.weight.sum()",
                "layer.steps = layer.steps + 1",
                f"{x} = layer.inner[0]({x})",
                "log.append(type(layer.inner[-1]).__name__)",
            ),
        )

    def write_dynamic_attributes(self, level, scope):
        n, x = self.number(scope), self.tensor(scope)
        self.emit(
            level,
            self.pick(
                f"setattr(box, 'dyn', {n}); log.append(getattr(box, 'dyn'))",
                "log.append(hasattr(box, 'extra1'))",
                "log.append(sorted(vars(box)))",
                f"box.__dict__['raw'] = {n}; log.append(box.raw)",
                "box.extra2 = 1; del box.extra2; log.append(hasattr(box, 'extra2'))",
                f"bump = box.bump; {x} = bump({n})",
                f"{x} = Box.bump(box, {n})",
                "log.append(isinstance(box, Box) and type(box).__name__)",
                f"other = types.SimpleNamespace(a={n}); other.a += 1; log.append(other.a)",
                "box.peer = box; log.append(box.peer.peer is box); del box.peer",
            ),
        )

    def write_class_inside(self, level, scope):
        n, x = self.number(scope), self.tensor(scope)
        name, base = self.name("Inner"), self.pick("", "Box", "Vector")
        self.emit(level, f"class {name}({base}):")
        self.emit(level + 1, f"kind = {n}")
        self.emit(level + 1, "def get(self, a):")
        self.emit(level + 2, f"return a * {name}.kind + self.kind")
        self.emit(level, f"{x} = {name}({x if base else ''}).get({x})")

    def write_enumeration(self, level, scope):
        n = self.number(scope)
        self.emit(
            level,
            self.pick(
                "log.append(Color.RED.name)",
                f"log.append(Color({n} % 2 + 1).value)",
                "log.append([c.value for c in Color])",
                "table[Color.BLUE] = 1",
                "log.append(Color['RED'] is Color.RED)",
                "log.append(Color.RED in (Color.BLUE, Color.RED))",
                "log.append({Color.RED: 'r'}.get(Color.BLUE, 'none'))",
            ),
        )

    def write_collection(self, level, scope):
        name, n, x = self.name("q"), self.number(scope), self.tensor(scope)
        kind, *steps = self.pick(
            (
                "collections.deque([1, 2], maxlen=2)",
                "{}.append({n})",
                "{}.rotate(1)",
                "{}.popleft()",
                "{}.extend(items)",
            ),
            (
                "collections.deque(items)",
                "{}.appendleft({n})",
                "{}.append({x})",
                "{}.extendleft([1, {n}])",
                "{}.clear()",
            ),
            (
                "collections.defaultdict(list)",
                "{}['a'].append({n})",
                "{}[{n}].extend(items)",
                "{}['b'] = [{x}]",
            ),
            (
                "collections.OrderedDict(a=1, b=2)",
                "{}.move_to_end('a')",
                "{}.popitem(last=False)",
                "{}['c'] = {x}",
            ),
            ("collections.Counter('abca')", "{}['a'] += {n}", "{}.update('bb')"),
            (
                "dict(a=1) | {{'b': 2}}",
                "{} |= {{'c': {n}}}",
                "{}['d'] = {x}",
                "{}.pop('a', None)",
                "{}.popitem()",
            ),
            (
                "{{k: [k] for k in 'ab'}}",
                "{}['a'].append({n})",
                "{}.setdefault('z', []).append(1)",
                "{}.get('q', []).append(2)",
            ),
            (
                "[[0] * 2 for _ in range(2)]",
                "{}[0][1] = {n}",
                "{}[1] = {}[0]",
                "{}.append({x})",
                "{}[0], {}[1] = {}[1], {}[0]",
            ),
        )
        self.emit(level, f"{name} = {kind}".replace("{{", "{").replace("}}", "}"))
        for step in self.random.sample(steps, self.random.randint(1, min(2, len(steps)))):
            text = step.replace("{n}", n).replace("{x}", x).replace("{}", name)
            self.emit(level, text.replace("{{", "{").replace("}}", "}"))
        self.emit(
            level,
            self.pick(
                f"log.append(len({name}))",
                f"table['col'] = {name}",
                f"log.extend(str(type(v)) for v in {name})",
            ),
        )

    def write_arithmetic(self, level, scope):
        n, m = self.number(scope), self.number(scope)
        self.emit(
            level,
            "log.append("
            + self.pick(
                f"divmod({n}, 3)",
                f"{n} ** 2 - {m} // 2",
                f"round({n} / 3, 2)",
                f"({n} & 3) | ({m} ^ 1)",
                f"f'{{{n}:05d}} {{{m}!r:>4}}'",
                f"{n} << 2 >> 1",
                f"~{n} + (not {m})",
                f"float({n}) == {n} and bool({m})",
                f"complex({n}, {m}).imag",
                f"{n} < {m} <= 7 != 3",
                f"({n} or {m}, {n} and {m})",
                f"max({n}, {m}, key=lambda v: -v)",
                f"sum([{n}, {m}], 1) / 4",
                f"'{{}}-{{:.2f}}'.format({n}, {m} / 3)",
                f"bin(abs({n}))[2:].zfill(4)",
            )
            + ")",
        )

    def write_unpacking(self, level, scope):
        n, x = self.number(scope), self.tensor(scope)
        self.emit(
            level,
            self.pick(
                f"(a_, b_), *c_ = [(1, {n}), 3, 4]; log.append((a_, b_, c_))",
                f"log.append([*items, *'ab', {n}])",
                f"log.append({{**{{'a': 1}}, 'b': {n}}})",
                f"rows = list({x}); log.append(len(rows)); {x} = {x} + rows[0]",
                "*head, tail = items or [0]; log.append((head, tail))",
                f"(lambda a, *b, c=3, **d: log.append((a, b, c, sorted(d))))({n}, 1, 2, e=4)",
                f"first, second, *_ = {x}.shape[0], {x}.shape[1], 3; log.append(first - second)",
                f"log.append((lambda *a: a)(*items[:2], {n}))",
            ),
        )
