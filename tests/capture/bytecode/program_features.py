"""Statements of the widest random programs: managers, generators, exceptions, cells, views, in-place operations."""


class FeatureStatements:
    """Statements about control and memory; Writer gives `pick`, `name`, `emit`, `tensor`, `number` and the like."""

    FEATURES = (
        "manager",
        "stacked",
        "sent",
        "kept_generator",
        "finally_flow",
        "chained_errors",
        "counter_cells",
        "shared_cells",
        "decorated",
        "global",
        "view_chain",
        "masked",
        "inplace_ops",
        "integers",
        "sizes",
        "recursive",
        "lambda_defaults",
        "delete",
        "outside",
        "nested_comprehension",
        "wants_gradient",
        "local_generator_break",
    )

    def inner_scope(self, scope):
        return self.nested(scope) | {"conditional": True}

    def write_manager(self, level, scope):
        swallows = self.pick("True", "False")
        self.emit(level, "try:")
        self.emit(level + 1, f"with scoped(log, 'm', {swallows}) as label:")
        self.block(level + 2, self.inner_scope(scope), 1)
        self.emit(
            level + 2,
            self.pick("raise ValueError(label)", "log.append(label)", "table['gone']", "noisy(x)", "pass"),
        )
        self.emit(level + 1, "log.append('after')")
        self.emit(level, "except (ValueError, KeyError) as error:")
        self.emit(level + 1, "log.append(type(error).__name__)")

    def write_stacked(self, level, scope):
        self.emit(
            level,
            self.pick(
                "with contextlib.suppress(KeyError, IndexError):",
                "with contextlib.ExitStack() as stack:",
                "with contextlib.nullcontext(3) as entered:",
                "with scoped(log, 'a'), scoped(log, 'b', True):",
                "with torch.no_grad(), Swallow(log):",
            ),
        )
        self.block(level + 1, self.inner_scope(scope), 1)
        self.emit(level + 1, self.pick("log.append('in it')", "noisy(y)", "pass"))

    def write_sent(self, level, scope):
        name, n = self.name("g"), self.number(scope)
        self.emit(level, f"{name} = chained({self.random.randint(0, 3)})")
        self.emit(level, f"log.append(next({name}))")
        self.emit(
            level,
            self.pick(
                f"log.append({name}.send({n}))",
                f"log.extend({name})",
                f"log.append([*{name}])",
                f"log.append(sum(v or 0 for v in {name}))",
                f"log.append(next({name}, None))",
                f"log.extend(walk({self.random.randint(0, 3)}))",
            ),
        )

    def write_kept_generator(self, level, scope):
        name, x = self.name("g"), self.tensor(scope)
        self.emit(level, f"{name} = ({x} * i for i in range({self.random.randint(1, 4)}))")
        inner = self.inner_scope(scope)
        self.block(level, inner, 1)
        self.emit(
            level,
            self.pick(
                f"{x} = {x} + next({name})",
                f"log.append(len(list({name})))",
                f"{x} = sum({name}, {x})",
                f"for part in {name}: {x} = part + {x}",
            ),
        )

    def write_finally_flow(self, level, scope):
        name, n = self.name("f"), self.number(scope)
        inner = self.inner_scope(scope) | {"inner": True, "functions": []}
        self.emit(level, f"def {name}(k):")
        self.emit(level + 1, "while True:")
        self.emit(level + 2, "try:")
        self.emit(level + 3, self.pick("k += 1", "noisy(k)", f"log.append({n})"))
        self.emit(level + 3, f"if {self.condition(inner)}:")
        self.emit(level + 4, self.pick("return k", "break", "raise ValueError(k)", "pass"))
        self.emit(level + 2, "except ValueError as error:")
        self.emit(level + 3, self.pick("log.append(error.args[0])", "raise KeyError('z') from error", "pass"))
        self.emit(level + 2, "else:")
        self.emit(level + 3, self.pick("log.append('else')", "pass"))
        self.emit(level + 2, "finally:")
        self.emit(level + 3, self.pick("k += 2", "log.append('f')", "noisy(k)", "pass"))
        self.emit(level + 2, self.pick("break", "if k > 3: break", "return (k, 'r')"))
        self.emit(level + 2, "k += 5")
        self.emit(level + 2, "if k > 20: break")
        self.emit(level + 1, "return k")
        self.emit(level, "try:")
        self.emit(level + 1, f"log.append({name}({n}))")
        self.emit(level, "except KeyError as error:")
        self.emit(level + 1, "log.append(repr(error.__cause__))")

    def write_chained_errors(self, level, scope):
        self.emit(level, "try:")
        self.emit(level + 1, "try:")
        self.emit(level + 2, self.pick("table['nope']", "raise Halt(3)", "[].pop()", "int('z')", "x.nothing"))
        self.emit(level + 1, "except KeyError:")
        self.emit(level + 2, self.pick("raise", "raise ValueError('w') from None", "log.append('k')"))
        self.emit(level + 1, "except (Halt, IndexError) as error:")
        self.emit(
            level + 2,
            self.pick("raise RuntimeError('r') from error", "log.append(error.args)", "raise error"),
        )
        self.emit(level + 1, "finally:")
        self.emit(level + 2, self.pick("log.append('inner')", "noisy(1)"))
        self.emit(level, "except Exception as error:")
        self.emit(
            level + 1,
            self.pick(
                "log.append(type(error.__cause__).__name__)",
                "log.append(type(error.__context__).__name__)",
                "log.append(isinstance(error, (KeyError, RuntimeError)))",
                "log.append(len(error.args))",
            ),
        )

    def write_counter_cells(self, level, scope):
        name, n = self.name("c"), self.number(scope)
        self.emit(level, f"def {name}(start):")
        self.emit(level + 1, "count = start")
        self.emit(level + 1, "def bump(by=1):")
        self.emit(level + 2, "nonlocal count")
        self.emit(level + 2, "count += by")
        if self.random.random() < 0.3:
            self.emit(level + 2, "noisy(count)")
        self.emit(level + 2, "return count")
        self.emit(level + 1, "def peek():")
        self.emit(level + 2, "return count")
        self.emit(level + 1, "return bump, peek")
        self.emit(level, f"bump_, peek_ = {name}({n})")
        self.emit(level, "bump_(); bump_(2)")
        self.emit(
            level,
            self.pick("log.append(peek_())", "table['peek'] = peek_()", "log.append((bump_(), peek_()))"),
        )

    def write_shared_cells(self, level, scope):
        name, x, n = self.name("h"), self.tensor(scope), self.number(scope)
        self.emit(level, f"{name} = {x} * {n}")
        self.emit(level, f"def use_{name}(): return {name} + {n}")
        self.block(level, self.inner_scope(scope), 1)
        self.emit(
            level,
            self.pick(
                f"{name} = use_{name}()",
                f"{name}.add_(1)",
                f"{name} = {name} if flag else {x}",
                f"del {name}; {name} = {x}",
            ),
        )
        self.emit(level, f"{x} = use_{name}()")

    def write_decorated(self, level, scope):
        name, x, n = self.name("d"), self.tensor(scope), self.number(scope)
        self.emit(level, "@counted")
        self.emit(level, f"def {name}(a, b=2):")
        self.emit(level + 1, '"""Text."""')
        self.emit(level + 1, "return a * b")
        self.emit(level, f"{x} = {name}({x}, b={n})")
        self.emit(level, self.pick(f"log.append({name}.calls)", f"log.append({name}.__name__)"))

    def write_global(self, level, scope):
        # `global` must come before any use in the function: a helper has it
        name, n = self.name("w"), self.number(scope)
        self.emit(level, f"def {name}(k):")
        self.emit(level + 1, "global TOTAL")
        self.emit(level + 1, "TOTAL = TOTAL + k")
        self.emit(level + 1, "STATE.append(k)")
        self.emit(level + 1, "return TOTAL - TOTAL")
        self.emit(level, f"log.append({name}({n}))")

    def write_recursive(self, level, scope):
        name, x = self.name("r"), self.tensor(scope)
        self.emit(level, f"def {name}(a, k):")
        self.emit(level + 1, "if k <= 0:")
        self.emit(level + 2, f"return {self.pick('a', 'noisy(a)', 'a * 2')}")
        self.emit(level + 1, f"return {name}(a + k, k - 1)")
        self.emit(level, f"{x} = {name}({x}, {self.random.randint(0, 3)})")

    def write_lambda_defaults(self, level, scope):
        name, x, n = self.name("l"), self.tensor(scope), self.number(scope)
        self.emit(level, f"{name} = [lambda v, i=i, t={x}: t * i + v for i in range(3)]")
        self.emit(
            level,
            self.pick(
                f"{x} = {name}[1]({n})",
                f"{x} = sum(f({n}) for f in {name})",
                f"{x} = {name}[-1](v={n}, i=2)",
                f"log.append([f.__defaults__[0] for f in {name}])",
            ),
        )

    def write_delete(self, level, scope):
        name, n = self.name("e"), self.number(scope)
        self.emit(level, f"{name} = {n}")
        if self.random.random() < 0.5:
            self.emit(level, f"if {self.condition(scope)}:")
            self.emit(level + 1, f"del {name}")
        else:
            self.emit(level, f"del {name}")
        self.emit(level, "try:")
        self.emit(level + 1, f"log.append({name})")
        self.emit(level, "except UnboundLocalError as error:")
        self.emit(level + 1, self.pick("log.append('unbound')", "log.append(str(error))", f"{name} = 1"))

    def write_outside(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        if not self.has_breaks:
            self.emit(level, "pass")
            return
        self.emit(
            level,
            self.pick(
                f"random.seed({n}); log.append(random.randint(0, 9))",
                f"log.append(float(np.float32(2) * {n}))",
                f"{x} = torch.from_numpy({x}.detach().numpy() + 1)",
                f"np.random.seed(1); {x} = {x} * float(np.random.rand())",
                f"torch.manual_seed({self.random.randint(0, 9)}); {x} = {x} + torch.rand(())",
                f"{x} = {x} + torch.randn({x}.shape) * 0",
                f"log.append(bool(({x} == {x}).all()))",
                f"if {x}.abs().max() > 100: {x} = {x} / 100",
                f"log.append(len(torch.nonzero({x} > 0)) > {n})",
                "log.append(locals().get('n'))",
                f"log.append([round(v, 1) for v in {x}[0].tolist()])",
            ),
        )

    def write_nested_comprehension(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        self.emit(
            level,
            self.pick(
                f"log.append([[i * j for j in range(i)] for i in range(3) if i != {n}])",
                f"{x} = torch.stack([{x} * k for k in (1, 2) if k > 0]).sum(0)",
                "log.append({k: [v for v in items if v != k] for k in items[:2]})",
                f"log.append({{i + {n} for i in (1, 2, 2)}} == {{3}})",
                "log.append([(a, b) for a in 'xy' for b in items[:2]])",
                "log.append([last := i for i in range(3)])",
                f"log.append(dict(zip('ab', [{n}, 2])))",
                f"{x} = sum({x}[:, i : i + 1] for i in range({x}.shape[1])) + {x}",
                "log.append(all(isinstance(v, int) for v in items))",
                "log.append([*map(lambda p: p[0], sorted(enumerate(items), key=lambda p: -p[0]))])",
            ),
        )

    def write_local_generator_break(self, level, scope):
        name, x = self.name("g"), self.tensor(scope)
        self.emit(level, f"def {name}(k):")
        self.emit(level + 1, "for i in range(k):")
        self.emit(level + 2, self.pick("with scoped(log, 'g'):", "try:"))
        is_try = self.lines[-1].strip() == "try:"
        self.emit(level + 3, f"yield {self.pick(x, 'i', 'noisy(i)')}")
        if is_try:
            self.emit(level + 2, "finally:")
            self.emit(level + 3, "log.append('done')")
        self.emit(level, f"for part in {name}({self.random.randint(1, 3)}):")
        self.emit(level + 1, self.pick(f"{x} = {x} + part", "log.append(part)", "noisy(part)"))
        self.emit(level + 1, self.pick("break", "continue", "pass", f"if {self.condition(scope)}: break"))
