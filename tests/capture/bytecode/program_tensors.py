"""Statements of random programs on tensors: chains of views, masks, writes in place, integers, sizes, gradients."""


class TensorStatements:
    """Part of `programs.Writer`; the names of these statements are in `program_features`."""

    def write_view_chain(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        a, b = self.name("v"), self.name("v")
        self.emit(
            level,
            f"{a} = " + self.pick(f"{x}.t()", f"{x}[1:]", f"{x}.reshape(-1)", f"{x}.narrow(0, 0, 2)"),
        )
        self.emit(
            level,
            f"{b} = "
            + self.pick(f"{a}[0]", f"{a}[..., :2]", f"{a}.unsqueeze(-1)", f"{a}.chunk(2)[0]", f"{a}"),
        )
        self.emit(
            level,
            self.pick(
                f"{b}.add_({n})",
                f"{x}.mul_(2)",
                f"{a}[-1] = {n}",
                f"{b} *= 0.5",
                f"{b}.fill_({n}); {x}[0, 0] = 9",
                f"torch.relu_({b})",
                f"{b}.copy_({b}.flip(0))",
            ),
        )
        self.emit(
            level,
            self.pick(
                f"log.append({b} is {a})",
                f"box.items.append({b})",
                f"{x} = {x} + {a}.sum()",
                f"log.append({b}.sum() + {a}.sum())",
                f"log.append({b}.shape)",
            ),
        )

    def write_masked(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        other = self.tensor(scope)
        self.emit(
            level,
            self.pick(
                f"{x}[{other} > 0] = {n}",
                f"{x}.masked_fill_({other} > {n}, 1.5)",
                f"{x} = {x}.masked_fill({x} > {n}, 0)",
                f"{x}[torch.tensor([0, 1])] = {n}",
                f"{x}.index_add_(0, torch.tensor([0, 0]), {x}[:2].clone())",
                f"{x} = torch.where({other} > 0, {x}, {other})",
                f"{x}[..., -1] += {n}",
                f"{x}[[0, 1], [1, 0]] = {n}",
                f"{x}[:, None][:, 0] *= 2",
            ),
        )

    def write_inplace_ops(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        self.emit(
            level,
            self.pick(
                f"{x} -= {x} * 0.5",
                f"{x} *= {n}",
                f"{x} /= 2",
                f"{x} **= 2",
                f"{x}.addcmul_({x}.clone(), {x}.clone(), value=0.1)",
                f"{x}.lerp_({x}.flip(0), 0.5)",
                f"{x}.t().add_({n})",
                f"{x}.add_({x}.t().clone()).clamp_(-3, 3)",
                f"torch.add({x}, {n}, out={x})",
                f"{x}.data.mul_(0.5)",
                f"{x}.zero_().add_({n})",
            ),
        )

    def write_integers(self, level, scope):
        name, x = self.name("k"), self.tensor(scope)
        self.emit(level, f"{name} = torch.arange({x}.shape[0])")
        self.emit(
            level,
            self.pick(
                f"{name} += 1",
                f"{name} = {name} // 2",
                f"{name} = {name} % 2 == 0",
                f"{name} = ({name} << 1) | 1",
                f"{name} = {name}.to({x}.dtype) / 2",
                f"{name}[0] = 5",
            ),
        )
        self.emit(
            level,
            self.pick(f"log.append({name})", f"{x} = {x} + {name}.to({x}.dtype)", f"{x} = {x} * {name}"),
        )

    def write_sizes(self, level, scope):
        x, n = self.tensor(scope), self.number(scope)
        name = self.name("n")
        self.emit(
            level,
            f"{name} = "
            + self.pick(
                f"{x}.size(0) * 2",
                f"{x}.numel() // 2",
                f"len({x}) + {n}",
                f"{x}.shape[-1] % 2",
                f"min({x}.shape)",
                f"sum({x}.size())",
                f"{x}.shape[0] if {x}.shape[0] > 3 else {n}",
                f"-{x}.shape[1]",
                f"int({x}.shape[0] / 2)",
            ),
        )
        self.emit(
            level,
            self.pick(
                f"{x} = {x} * {name}",
                f"{x} = {x}.reshape({x}.shape[0], -1)",
                f"{x} = {x} + torch.ones({x}.shape[0], 1)",
                f"log.append({name} > 4)",
                f"for i in range({x}.shape[0]): {x} = {x} + i",
                f"log.append(f'{{{name}}}')",
                f"{x} = torch.zeros_like({x}) + {name}",
                f"log.append(tuple({x}.shape))",
                f"{x} = {x}.expand({x}.size()).clone()",
            ),
        )
        if not scope["conditional"]:
            scope["numbers"].append(name)

    def write_wants_gradient(self, level, scope):
        name, x = self.name("w"), self.tensor(scope)
        self.emit(
            level, f"{name} = {x}.detach().clone()" + self.pick("", ".requires_grad_()", ".requires_grad_()")
        )
        self.emit(level, f"{name}_loss = ({name} * {name}).sum()")
        self.emit(
            level,
            self.pick(
                f"log.append({name}_loss.requires_grad)",
                f"if {name}_loss.requires_grad: log.append(torch.autograd.grad({name}_loss, {name})[0])",
                f"log.append({name}_loss.detach())",
                f"with torch.no_grad(): log.append(({name} * 2).requires_grad)",
                f"if {name}.requires_grad: {name}_loss.backward(); log.append({name}.grad)",
            ),
        )
