"""Programs by kind: what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.fuzz.attention import ATTENTION_STATEMENTS, draw_token_arguments
from tests.fuzz.image_arguments import draw_image_arguments
from tests.fuzz.images import IMAGE_STATEMENTS
from tests.fuzz.programs import Program, write_program
from tests.fuzz.statements import STATEMENTS

KINDS: Mapping[str, Callable[[int, bool], Program]] = {
    "loops": lambda seed, train: write_program(seed, STATEMENTS, train),
    "attention": lambda seed, train: write_program(
        seed, ATTENTION_STATEMENTS, train, draw_token_arguments, (5, 14)
    ),
    "images": lambda seed, train: write_program(seed, IMAGE_STATEMENTS, train, draw_image_arguments, (5, 14)),
}
