"""200 steps of training a small GPT on real text, in eager and through longhand: the loss curves, as an SVG.

    python -m benchmarks.loss_curve --out docs/training_loss.svg

The text is Python's own documentation of its topics (``pydoc_data.topics``, which every Python ships), byte by byte.
How far two curves may lie apart by rounding alone is measured too: a second run in eager starts from weights that
differ by a ten-millionth of their size.
"""

from __future__ import annotations

import argparse
import copy
import pydoc_data.topics
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

import longhand
from benchmarks import report
from examples.gpt_train import LanguageModel

N_STEPS, BATCH, SEQ = 200, 8, 64
WIDTH, HEIGHT, MARGIN = 720, 360, 48
COLOURS = {"eager": "#1f77b4", "longhand": "#d62728"}


def text() -> torch.Tensor:
    """The bytes of the text, as tokens."""
    pages = (page for _, page in sorted(pydoc_data.topics.topics.items()))
    return torch.frombuffer(bytearray("\n".join(pages).encode()), dtype=torch.uint8).long()


def batches(tokens: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The same places of the text for every run: (tokens, the tokens that follow them)."""
    generator = torch.Generator().manual_seed(0)
    pairs = []
    for _ in range(N_STEPS):
        starts = torch.randint(len(tokens) - SEQ - 1, (BATCH,), generator=generator)
        rows = torch.stack([tokens[start : start + SEQ + 1] for start in starts.tolist()])
        pairs.append((rows[:, :-1].contiguous(), rows[:, 1:].contiguous()))
    return pairs


def train(
    model: nn.Module, call: Callable[..., torch.Tensor], data: Sequence[tuple[torch.Tensor, torch.Tensor]]
) -> list[float]:
    """The loss of each step.

    Args:
        model: Whose parameters are trained.
        call: The model, as it is to run.
        data: A batch for each step.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for tokens, targets in data:
        optimizer.zero_grad()
        loss = call(tokens, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def curves() -> dict[str, list[float]]:
    """The losses in eager, through longhand, and in eager from weights that differ by rounding."""
    torch.manual_seed(0)
    model = LanguageModel(n_tokens=256, max_seq=SEQ, dim=128, n_heads=4, n_layers=4).train()
    data = batches(text())
    losses = {}
    eager = copy.deepcopy(model)
    losses["eager"] = train(eager, eager, data)
    ours = copy.deepcopy(model)
    losses["longhand"] = train(ours, longhand.compile(ours, options={"strict": True}), data)
    noisy = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in noisy.parameters():
            parameter.mul_(1 + 1e-7 * torch.randn_like(parameter))
    losses["eager, weights off by 1e-7"] = train(noisy, noisy, data)
    return losses


def furthest(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest difference of two curves, relative to the loss."""
    return max(abs(a - b) / abs(a) for a, b in zip(one, other, strict=True))


def drawing(found: dict[str, list[float]]) -> str:
    """The curves as an SVG; the second is drawn in dashes over the first."""
    top = max(found["eager"])
    across = (WIDTH - 2 * MARGIN) / (N_STEPS - 1)
    up = (HEIGHT - 2 * MARGIN) / top
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for loss in range(int(top) + 1):
        y = HEIGHT - MARGIN - loss * up
        lines.append(f'<path d="M{MARGIN} {y:.1f}H{WIDTH - MARGIN}" stroke="#ddd"/>')
        lines.append(f'<text x="{MARGIN - 8}" y="{y + 4:.1f}" text-anchor="end">{loss}</text>')
    for step in range(0, N_STEPS + 1, 50):
        x = MARGIN + step * across
        lines.append(f'<text x="{x:.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{step}</text>')
    for place, (name, colour) in enumerate(COLOURS.items()):
        points = " ".join(
            f"{MARGIN + step * across:.1f},{HEIGHT - MARGIN - loss * up:.1f}"
            for step, loss in enumerate(found[name])
        )
        dashes = ' stroke-dasharray="6 6"' if place else ""
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        y = MARGIN + 18 * place
        lines.append(f'<path d="M{WIDTH - 220} {y}h30" stroke="{colour}" stroke-width="2"{dashes}/>')
        lines.append(f'<text x="{WIDTH - 182}" y="{y + 4}">{name}</text>')
    middle = f'x="{WIDTH / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle"'
    lines.append(f"<text {middle}>step (loss per byte, in nats)</text>")
    return "\n".join([*lines, "</svg>", ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains, prints how far the curves lie apart, and draws them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="where to draw the curves")
    options = parser.parse_args(arguments)
    print(report.machine("cpu"))
    all_losses = curves()
    for name, losses in all_losses.items():
        apart = furthest(all_losses["eager"], losses)
        print(
            f"{name:<28} step 1 {losses[0]:.4f}  100 {losses[99]:.4f}  200 {losses[-1]:.4f}  apart {apart:.1e}"
        )
    if options.out:
        options.out.write_text(drawing(all_losses))


if __name__ == "__main__":
    main()
