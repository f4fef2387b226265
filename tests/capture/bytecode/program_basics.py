"""The statements that every random program may have: assignments, loops, containers, closures, try and with."""


class BasicStatements:
    """Part of `programs.Writer`."""

    def write_assign(self, level, scope):
        name = self.name("t") if self.random.random() < 0.5 else self.tensor(scope)
        self.emit(level, f"{name} = {self.tensor_text(scope)}")
        if name not in scope["tensors"] and not scope["conditional"]:
            scope["tensors"].append(name)

    def write_inplace(self, level, scope):
        x = self.tensor(scope)
        text = self.pick(
            f"{x} += {self.number(scope)}",
            f"{x} = {x}.clone()",
            f"{x}.mul_(0.5)",
            f"{x}[0] = {self.number(scope)}",
            f"{x}[:, 1:].add_({self.number(scope)})",
        )
        self.emit(level, text)

    def write_write(self, level, scope):
        self.emit(level, f"x.add_({self.number(scope)})")

    def write_number(self, level, scope):
        name = self.name("n")
        a, b = self.number(scope), self.number(scope)
        text = self.pick(
            f"{a} + {b}",
            f"{a} * {b}",
            f"{a} - len(items)",
            f"{self.tensor(scope)}.shape[0]",
            f"max({a}, {b})",
            f"int(flag) + {a}",
            f"({a} if {self.condition(scope)} else {b})",
            "len(table)",
            f"abs({a})",
        )
        self.emit(level, f"{name} = {text}")
        if not scope["conditional"]:
            scope["numbers"].append(name)

    def write_list(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        text = self.pick(
            f"items.append({n})",
            f"items.insert(0, {n})",
            "items.reverse()",
            f"box.items.append({x})",
            f"items.extend([{n}, 1])",
            "items.pop() if items else None",
            f"items[{self.random.randint(0, 1)}] = {n}",
            "del items[0]",
            f"items += [{n}]",
            "items.sort()",
            "items = items + [7]",
            "items = list(items)",
        )
        if "items[" in text or "del" in text:
            self.emit(level, "if len(items) > 2:")
            level += 1
        self.emit(level, text)

    def write_dict(self, level, scope):
        key = f"'k{self.random.randint(0, 3)}'"
        x, n = self.tensor(scope), self.number(scope)
        self.emit(
            level,
            self.pick(
                f"table[{key}] = {x}",
                f"table.pop({key}, None)",
                f"table.setdefault({key}, {n})",
                f"table.update({{{key}: {n}}})",
                f"table = dict(table, extra={x})",
                f"table[{n}] = items",
            ),
        )

    def write_attribute(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        self.emit(
            level,
            self.pick(
                f"box.value = {x}",
                f"box.extra{self.random.randint(0, 2)} = {n}",
                f"box = Box({x}, items)",
                f"box.items = [{x}]",
                "box.items = items",
                f"box = Box({x})",
            ),
        )

    def write_if(self, level, scope):
        self.emit(level, f"if {self.condition(scope)}:")
        inner = self.nested(scope) | {"conditional": True}
        self.block(level + 1, inner, self.random.randint(1, 3))
        if self.random.random() < 0.5:
            self.emit(level, "else:")
            self.block(level + 1, inner, self.random.randint(1, 2))

    def write_for(self, level, scope):
        name = self.name("i")
        over = self.pick(
            f"range({self.random.randint(0, 3)})",
            "list(items)[:3]",
            "enumerate(['p', 'q'])",
            "list(table)",
            "(1, 2)",
        )
        self.emit(level, f"for {name} in {over}:")
        inner = self.nested(scope) | {"conditional": True}
        if over.startswith(("range", "(1")):
            inner["numbers"] = [*inner["numbers"], name]
        self.block(level + 1, inner, self.random.randint(1, 2))
        if self.random.random() < 0.3:
            self.emit(level + 1, f"if {self.condition(inner)}:")
            self.emit(level + 2, self.pick("break", "continue"))
            self.emit(level + 1, f"{self.tensor(scope)} = {self.tensor_text(inner)}")
        if self.random.random() < 0.2:
            self.emit(level, "else:")
            self.block(level + 1, inner, 1)

    def write_while(self, level, scope):
        name = self.name("w")
        self.emit(level, f"{name} = 0")
        self.emit(level, f"while {name} < {self.random.randint(1, 3)}:")
        self.emit(level + 1, f"{name} += 1")
        self.block(level + 1, self.nested(scope) | {"conditional": True}, 1)

    def write_unpack(self, level, scope):
        a, b = self.tensor(scope), self.tensor(scope)
        self.emit(level, self.pick(f"{a}, {b} = {b}, {a}", f"{a}, *rest = [{self.tensor_text(scope)}, 1, 2]"))

    def write_function(self, level, scope):
        name = self.name("f")
        inner = {
            "tensors": ["a", *scope["tensors"][:2]],
            "numbers": ["b", *scope["numbers"][:1]],
            "functions": [],
            "conditional": True,
            "inner": True,
        }
        self.emit(level, f"def {name}(a, b={self.random.randint(0, 3)}, *more, c=1):")
        if self.random.random() < 0.4:
            self.emit(level + 1, f"if {self.condition(inner)}:")
            self.emit(level + 2, f"return {self.tensor_text(inner)}")
        self.emit(level + 1, f"return {self.tensor_text(inner)} * c")
        if not scope["conditional"]:
            scope["functions"].append(name)

    def write_closure(self, level, scope):
        if scope["inner"]:
            return
        self.emit(level, "def step(k):")
        self.emit(level + 1, "nonlocal total")
        self.emit(level + 1, f"total = total + {self.tensor_text(scope)} * k")
        self.emit(level + 1, f"items.append({self.number(scope)})")
        self.emit(level + 1, "return total")
        self.emit(level, f"step({self.number(scope)})")

    def write_try(self, level, scope):
        inner = self.nested(scope) | {"conditional": True}
        self.emit(level, "try:")
        self.block(level + 1, inner, 1)
        self.emit(
            level + 1,
            self.pick(
                "table['missing']",
                "[][3]",
                "raise ValueError('v')",
                "pass",
                f"x = x @ {self.tensor(scope)}",
                "int('q')",
            ),
        )
        self.emit(
            level,
            self.pick("except KeyError:", "except (IndexError, ValueError):", "except Exception as error:"),
        )
        self.block(level + 1, inner, 1)
        if self.random.random() < 0.5:
            self.emit(level, "finally:")
            self.block(level + 1, inner, 1)

    def write_with(self, level, scope):
        self.emit(
            level,
            self.pick(
                "with Swallow(log) as entered:",
                "with torch.no_grad():",
                "with Swallow(log), torch.enable_grad():",
            ),
        )
        inner = self.nested(scope) | {"conditional": True}
        self.block(level + 1, inner, self.random.randint(1, 2))
        if self.random.random() < 0.2:
            self.emit(level + 1, "table['gone']")

    def write_comprehension(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        self.emit(
            level,
            self.pick(
                f"{x} = sum([{x} * i for i in range(3) if i != {n}])",
                f"items = [i for i in items if i != {n}][:5]",
                f"table = {{k: v for k, v in table.items() if k != 'k{self.random.randint(0, 3)}'}}",
                f"{x} = {x} + sum(i for i in (1, 2, {n}))",
                "log.extend(str(k) for k in table)",
            ),
        )

    def write_generator(self, level, scope):
        name = self.name("g")
        x = self.tensor(scope)
        self.emit(level, f"def {name}(k):")
        self.emit(level + 1, "for i in range(k):")
        self.emit(level + 2, f"yield {self.tensor_text(scope | {'inner': True})} + i")
        self.emit(level, f"for part in {name}({self.random.randint(0, 3)}):")
        self.emit(level + 1, f"{x} = {x} + part")

    def write_alias(self, level, scope):
        self.emit(
            level,
            self.pick(
                "box.items = items",
                "log.append(len(box.items))",
                "items = box.items[:2] if False else items",
                "y = x",
                "shared = [items, items]; shared[0].append(3)",
            ),
        )

    def write_raise(self, level, scope):
        self.emit(level, f"if {self.condition(scope)} and len(log) > 6:")
        self.emit(level + 1, f"raise RuntimeError('stop', {self.number(scope)})")
