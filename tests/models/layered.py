"""Models of several nearly equal layers, which a unit may take for one another: ``LAYERED`` makes each by its name.

What differs from layer to layer is small and decides the result: a number, a buffer that is in no state_dict, an
optional tensor, the window of an attention, who shares whose weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.nn.utils import parametrizations

Example = tuple[nn.Module, tuple[Tensor, ...]]
LAYERED: dict[str, Callable[[], Example]] = {}
DIM, HEADS = 16, 2


def layered(*counts: int) -> Callable[[Callable[[int], Example]], Callable[[int], Example]]:
    """Registers what makes a model of so many layers, once for each count."""

    def register(make: Callable[[int], Example]) -> Callable[[int], Example]:
        for count in counts:
            LAYERED[f"{make.__name__}_{count}"] = functools.partial(make, count)
        return make

    return register


class Stack(nn.Module):
    """Layers, one after the other."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class FeedForward(nn.Module):
    """A residual layer of two products."""

    def __init__(self, dim: int = DIM) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def sequence() -> tuple[Tensor, ...]:
    """Two sequences of seven."""
    return (torch.randn(2, 7, DIM),)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Rotary(nn.Module):
    """Attention with rotary positions of a base of its own, in buffers that are in no state_dict."""

    def __init__(self, base: float, fused: bool = False) -> None:
        super().__init__()
        self.norm, self.fused = nn.LayerNorm(DIM), fused
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        steps = torch.arange(7)[:, None] / base ** (torch.arange(0, DIM // HEADS, 2) / (DIM // HEADS))
        self.register_buffer("cos", torch.cat([steps, steps], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([steps, steps], -1).sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, dim = x.shape
        if self.fused:
            qkv = self.qkv(self.norm(x)).view(batch, seq, 3, HEADS, dim // HEADS).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
        else:
            parts = self.qkv(self.norm(x)).chunk(3, -1)
            q, k, v = (part.view(batch, seq, HEADS, -1).transpose(1, 2) for part in parts)
        q, k = rotated(q, self.cos, self.sin), rotated(k, self.cos, self.sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))


@layered(2, 3, 5, 7)
def rotary_bases(count: int) -> Example:
    return Stack([Rotary(100.0 * (1 + number)) for number in range(count)]), sequence()


@layered(6)
def one_rotary_base_that_differs(count: int) -> Example:
    return Stack([Rotary(10.0 if number == 3 else 10000.0) for number in range(count)]), sequence()


@layered(2, 3, 7)
def rotary_base_of_all(count: int) -> Example:
    return Stack([Rotary(100.0) for _ in range(count)]), sequence()


@layered(2, 3)
def fused_qkv(count: int) -> Example:
    return Stack([Rotary(100.0, fused=True) for _ in range(count)]), sequence()


@layered(2, 5)
def fused_qkv_rotary_bases(count: int) -> Example:
    return Stack([Rotary(100.0 * (1 + number), fused=True) for number in range(count)]), sequence()


class Scaled(FeedForward):
    """Whose result is multiplied: by a number, or by what `scale` holds."""

    def __init__(self, scale: float | Tensor, persistent: bool | None = None) -> None:
        super().__init__()
        if persistent is not None:
            self.register_buffer("scale", torch.as_tensor(scale), persistent=persistent)
        else:
            self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.down(F.gelu(self.up(self.norm(x))))


@layered(2, 3, 5, 7)
def numbers(count: int) -> Example:
    return Stack([Scaled(0.5 + number) for number in range(count)]), sequence()


@layered(3, 7)
def plain_tensors(count: int) -> Example:
    """Tensors that are attributes, neither parameters nor buffers."""
    return Stack([Scaled(torch.full((DIM,), 0.5 + number)) for number in range(count)]), sequence()


@layered(2, 3, 5, 7)
def small_buffers(count: int) -> Example:
    """Values that are written into model.py."""
    scales = [Scaled(torch.full((DIM,), 0.5 + number), persistent=False) for number in range(count)]
    return Stack([*scales]), sequence()


@layered(3, 7)
def buffers_of_one_element(count: int) -> Example:
    return Stack([Scaled(0.5 + number, persistent=False) for number in range(count)]), sequence()


@layered(3, 7)
def kinds_of_buffers(count: int) -> Example:
    """One is a line of torch, the others are stored; their values are far apart."""
    scales = [torch.randn(DIM) if number % 2 else torch.arange(DIM) / 1.0 for number in range(count)]
    return Stack([Scaled(scale, persistent=False) for scale in scales]), sequence()


@layered(3, 5)
def buffers_in_the_state_dict(count: int) -> Example:
    return Stack([Scaled(torch.randn(DIM), persistent=True) for number in range(count)]), sequence()


@layered(5, 6)
def some_buffers_in_the_state_dict(count: int) -> Example:
    """Which the others are not: equal in every other way."""
    scales = [Scaled(torch.randn(DIM), persistent=number % 2 == 0) for number in range(count)]
    return Stack([*scales]), sequence()


class Made(FeedForward):
    """Which makes a tensor of its own number at each call."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * torch.tensor([1.0, 0.5 * self.number])[1] + torch.full(
            (DIM,), self.number
        )


@layered(3, 7)
def made_tensors(count: int) -> Example:
    return Stack([Made(number) for number in range(count)]), sequence()


class Permuted(FeedForward):
    """Which permutes the columns as a buffer says."""

    def __init__(self, order: Tensor, keep: Tensor) -> None:
        super().__init__()
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("keep", keep, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[..., self.order].masked_fill(self.keep, 0.5))


@layered(3, 7)
def permutations(count: int) -> Example:
    layers = [Permuted(torch.randperm(DIM), torch.rand(DIM) > 0.5) for _ in range(count)]
    return Stack([*layers]), sequence()


class Windowed(nn.Module):
    """Attention in windows, shifted or not, with a bias for the distance, as Swin has it."""

    def __init__(self, shift: int, size: int = 8, window: int = 4) -> None:
        super().__init__()
        self.shift, self.window = shift, window
        self.norm, self.qkv, self.out = nn.LayerNorm(DIM), nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.table = nn.Parameter(torch.randn(2 * window - 1, HEADS))
        distance = torch.arange(window)[:, None] - torch.arange(window) + window - 1
        self.register_buffer("distance", distance, persistent=False)
        mask = None
        if shift:
            region = torch.zeros(size)
            region[-window:-shift], region[-shift:] = 1, 2
            regions = region.view(-1, window)
            mask = (regions[:, None] != regions[:, :, None]).float() * -100.0
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, size, dim = x.shape
        hidden = self.norm(x)
        if self.shift:
            hidden = torch.roll(hidden, -self.shift, 1)
        windows = hidden.view(batch * size // self.window, self.window, dim)
        qkv = self.qkv(windows).view(-1, self.window, 3, HEADS, dim // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = q * (dim // HEADS) ** -0.5 @ k.transpose(-2, -1)
        bias = self.table[self.distance.view(-1)].view(self.window, self.window, -1)
        scores = scores + bias.permute(2, 0, 1).contiguous()[None]
        if self.mask is not None:
            n_windows = self.mask.shape[0]
            scores = scores.view(-1, n_windows, HEADS, self.window, self.window) + self.mask[:, None]
            scores = scores.view(-1, HEADS, self.window, self.window)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, size, dim)
        mixed = self.out(mixed)
        if self.shift:
            mixed = torch.roll(mixed, self.shift, 1)
        return x + mixed


@layered(2, 3, 5, 6)
def shifted_windows(count: int) -> Example:
    return Stack([Windowed(2 * (number % 2)) for number in range(count)]), (torch.randn(3, 8, DIM),)


@layered(5, 7)
def shifts(count: int) -> Example:
    """A shift that no other layer has."""
    return Stack([Windowed(number % 3 + 1) for number in range(count)]), (torch.randn(3, 8, DIM),)


class Local(nn.Module):
    """Attention to the last few positions, or to all."""

    def __init__(self, reach: int | None) -> None:
        super().__init__()
        self.reach, self.norm = reach, nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, dim = x.shape
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (part.view(batch, seq, HEADS, -1).transpose(1, 2) for part in parts)
        place = torch.arange(seq)
        keep = place[:, None] >= place
        if self.reach is not None:
            keep = keep & (place[:, None] - place < self.reach)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))


@layered(2, 3, 5, 8)
def alternating_reach(count: int) -> Example:
    return Stack([Local(3 if number % 2 else None) for number in range(count)]), sequence()


@layered(5, 7)
def growing_reach(count: int) -> Example:
    return Stack([Local(1 + number) for number in range(count)]), sequence()


class Optional(FeedForward):
    """With or without a scale that is learned, and a bias."""

    def __init__(self, has_scale: bool, has_bias: bool = True) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(DIM)) if has_scale else None
        self.down = nn.Linear(2 * DIM, DIM, bias=has_bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden = super().forward(x)
        return hidden if self.scale is None else hidden * self.scale


@layered(2, 3, 5, 7)
def optional_scale(count: int) -> Example:
    return Stack([Optional(number == 1) for number in range(count)]), sequence()


@layered(5, 7)
def optional_bias(count: int) -> Example:
    return Stack([Optional(True, has_bias=number != 2) for number in range(count)]), sequence()


class Dropped(FeedForward):
    """With dropout."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(p)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.down(F.relu(self.up(self.norm(x)))))


@layered(2, 3, 5)
def dropouts(count: int) -> Example:
    return Stack([Dropped(0.1 * number) for number in range(count)]), sequence()


@layered(3, 5)
def one_dropout(count: int) -> Example:
    return Stack([Dropped(0.2) for number in range(count)]), sequence()


class Language(nn.Module):
    """Tokens in, tokens out: the table is the last layer's weight, too."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.table, self.stack = nn.Embedding(11, DIM), Stack(layers)
        self.head = nn.Linear(DIM, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.stack(self.table(tokens)))


@layered(2, 3, 5)
def tied_head(count: int) -> Example:
    return Language([FeedForward() for _ in range(count)]), (torch.randint(11, (2, 7)),)


@layered(2, 3, 5, 7)
def tied_weights(count: int) -> Example:
    """Every second layer has the weight of the one before."""
    layers = [FeedForward() for _ in range(count)]
    for number in range(1, count, 2):
        layers[number].up.weight = layers[number - 1].up.weight
    return Stack([*layers]), sequence()


@layered(3, 7)
def weight_of_all(count: int) -> Example:
    layers = [FeedForward() for _ in range(count)]
    for layer in layers[1:]:
        layer.down.weight = layers[0].down.weight
    return Stack([*layers]), sequence()


@layered(3, 6)
def one_module(count: int) -> Example:
    return Stack([FeedForward()] * count), sequence()


@layered(4, 6)
def modules_in_turn(count: int) -> Example:
    one, other = FeedForward(), FeedForward()
    return Stack([one, other] * (count // 2)), sequence()


@layered(3, 5)
def one_norm_for_all(count: int) -> Example:
    layers = [FeedForward() for _ in range(count)]
    for layer in layers:
        layer.norm = layers[0].norm
    return Stack([*layers]), sequence()


class Hourglass(nn.Module):
    """An encoder whose results a decoder takes in reverse."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(FeedForward() for _ in range(count))
        self.decoder = nn.ModuleList(FeedForward() for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for layer in self.encoder:
            x = layer(x)
            seen.append(x)
        for layer in self.decoder:
            x = layer(x + seen.pop())
        return x


@layered(2, 3, 5)
def hourglass(count: int) -> Example:
    return Hourglass(count), sequence()


class Crossing(FeedForward):
    """Which also attends to what an encoder made."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.keys = nn.Linear(DIM, DIM), nn.Linear(DIM, 2 * DIM)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        k, v = self.keys(memory).chunk(2, -1)
        scores = self.query(x) @ k.transpose(-2, -1)
        return super().forward(x + scores.softmax(-1) @ v)


class Translator(nn.Module):
    """An encoder and a decoder that looks at its result in every layer."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(FeedForward() for _ in range(count))
        self.decoder = nn.ModuleList(Crossing() for _ in range(count))

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        for layer in self.encoder:
            source = layer(source)
        for layer in self.decoder:
            target = layer(target, source)
        return target, source


@layered(2, 3, 5)
def translator(count: int) -> Example:
    return Translator(count), (torch.randn(2, 9, DIM), torch.randn(2, 7, DIM))


class Pyramid(nn.Module):
    """Stages of other widths, each with layers."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.ModuleList(FeedForward(DIM * 2**stage) for _ in range(count)) for stage in range(3)
        )
        self.widen = nn.ModuleList(nn.Linear(DIM * 2**stage, DIM * 2 ** (stage + 1)) for stage in range(2))

    def forward(self, x: Tensor) -> list[Tensor]:
        results = []
        for number, stage in enumerate(self.stages):
            for layer in stage:
                x = layer(x)
            results.append(x)
            if number < len(self.widen):
                x = F.avg_pool1d(self.widen[number](x).transpose(1, 2), 2).transpose(1, 2)
        return results


@layered(2, 3)
def pyramid(count: int) -> Example:
    return Pyramid(count), (torch.randn(2, 8, DIM),)


class There(nn.Module):
    """Through the layers and back."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(FeedForward() for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        for layer in reversed(self.layers):
            x = layer(x)
        return x


@layered(2, 5)
def there_and_back(count: int) -> Example:
    return There(count), sequence()


class Collecting(nn.Module):
    """All layers' results, as transformers return them, and the first input again in each layer."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(FeedForward() for _ in range(count))
        self.mix = nn.ParameterList(nn.Parameter(torch.randn(2)) for _ in range(count))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        first, seen = x, []
        for layer, mix in zip(self.layers, self.mix, strict=True):
            x = layer(mix[0] * x + mix[1] * first)
            seen.append(x)
        return x.mean(1), seen


@layered(2, 3, 5)
def collecting(count: int) -> Example:
    return Collecting(count), sequence()


class Counting(FeedForward):
    """Which keeps a running mean of what it saw."""

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("seen", torch.zeros(DIM))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.mul_(1 - self.momentum).add_(x.detach().mean((0, 1)), alpha=self.momentum)
        return super().forward(x - self.seen)


@layered(3, 6)
def running_means(count: int) -> Example:
    return Stack([Counting(0.1 * (number + 1)) for number in range(count)]), sequence()


@layered(6)
def running_means_alike(count: int) -> Example:
    return Stack([Counting(0.1) for _ in range(count)]), sequence()


class Convolved(nn.Module):
    """A residual convolution with a batch norm."""

    def __init__(self, dilation: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=dilation, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm2d(8, momentum=momentum)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm(self.conv(x)))


def picture() -> tuple[Tensor, ...]:
    """Two images of eight channels."""
    return (torch.randn(2, 8, 9, 9),)


@layered(2, 3, 5)
def convolutions(count: int) -> Example:
    return Stack([Convolved(1) for _ in range(count)]), picture()


@layered(3, 6)
def dilations(count: int) -> Example:
    return Stack([Convolved(1 + number % 3) for number in range(count)]), picture()


@layered(3, 6)
def momenta(count: int) -> Example:
    return Stack([Convolved(1, 0.1 * (number + 1)) for number in range(count)]), picture()


class Shuffled(nn.Module):
    """ShuffleNet's unit: half of the channels, joined and shuffled."""

    def __init__(self) -> None:
        super().__init__()
        # As in ShuffleNet without a bias: the norm takes it away, and its gradient would be rounding and nothing else.
        self.conv = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        kept, other = x.chunk(2, 1)
        joined = torch.cat([kept, F.relu(self.norm(self.conv(other)))], 1)
        batch, channels, height, width = joined.shape
        shuffled = joined.view(batch, 2, channels // 2, height, width).transpose(1, 2)
        return shuffled.reshape(batch, channels, height, width)


@layered(2, 3, 5)
def shuffled_channels(count: int) -> Example:
    return Stack([Shuffled() for _ in range(count)]), picture()


class Densely(nn.Module):
    """Each layer reads all that came before."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(8 + 4 * number, 4, 3, padding=1) for number in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, F.relu(layer(x))], 1)
        return x


@layered(3)
def densely(count: int) -> Example:
    return Densely(count), picture()


class Checkpointed(Stack):
    """Layers whose insides are computed again in the backward pass."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        return x


@layered(2, 3, 5)
def checkpointed(count: int) -> Example:
    return Checkpointed([FeedForward() for _ in range(count)]), sequence()


@layered(2)
def checkpointed_rotary(count: int) -> Example:
    return Checkpointed([Rotary(100.0, fused=True) for _ in range(count)]), sequence()


class Messages(nn.Module):
    """A graph convolution: the sum of what the neighbours send."""

    def __init__(self) -> None:
        super().__init__()
        self.send, self.keep = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        sent = self.send(x)[edges[0]]
        return F.relu(self.keep(x) + torch.zeros_like(x).index_add(0, edges[1], sent))


class Network(nn.Module):
    """Graph convolutions."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Messages() for _ in range(count))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, edges)
        return x


@layered(1, 2, 3, 5)
def graph_network(count: int) -> Example:
    return Network(count), (torch.randn(9, DIM), torch.randint(9, (2, 20)))


def parametrized(how: Callable[[nn.Module], nn.Module], count: int) -> Example:
    layers = [FeedForward() for _ in range(count)]
    for layer in layers:
        how(layer.up)
    return Stack([*layers]), sequence()


@layered(1, 3)
def spectral_norms(count: int) -> Example:
    return parametrized(parametrizations.spectral_norm, count)


@layered(1, 3)
def weight_norms(count: int) -> Example:
    return parametrized(parametrizations.weight_norm, count)


@layered(1, 3)
def orthogonal(count: int) -> Example:
    return parametrized(functools.partial(parametrizations.orthogonal, orthogonal_map="cayley"), count)


class Expert(nn.Module):
    """A layer whose parts are chosen by name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.parts = nn.ModuleDict({"wide": nn.Linear(DIM, DIM), "deep": nn.Linear(DIM, DIM)})

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.parts[self.kind](x))


@layered(4, 6)
def chosen_parts(count: int) -> Example:
    """Half of the parameters are read by no layer."""
    return Stack([Expert(("wide", "deep")[number % 2]) for number in range(count)]), sequence()


@layered(3, 6)
def skipped_layers(count: int) -> Example:
    layers: list[nn.Module] = [FeedForward() for _ in range(count)]
    layers[1] = nn.Identity()
    return Stack(layers), sequence()


class LayersInAGroup(nn.Module):
    """Layers that are attributes with numbers in their names, called by name."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        for number in range(count):
            self.add_module(f"layer{number + 1}", Scaled(0.5 + number))

    def forward(self, x: Tensor) -> Tensor:
        for number in range(self.count):
            x = getattr(self, f"layer{number + 1}")(x)
        return x


@layered(3)
def numbered_names(count: int) -> Example:
    return LayersInAGroup(count), sequence()


class Cell(nn.Module):
    """One step of a recurrence, unrolled."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList(nn.GRUCell(DIM, DIM) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        states = [x.new_zeros(x.shape[0], DIM) for _ in self.cells]
        for step in range(3):
            hidden = x[:, step]
            for number, cell in enumerate(self.cells):
                hidden = states[number] = cell(hidden, states[number])
        return torch.stack(states)


@layered(2, 3)
def recurrence(count: int) -> Example:
    return Cell(count), sequence()
