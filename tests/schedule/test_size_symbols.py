"""Sizes in which modules differ are symbols; what tells one must come out right in all modules, and by no chance."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from longhand.lower.ir import Buffer, BufferKind, Extern, Size, View, ViewCall
from longhand.schedule.functions.alike_steps import AlikeSteps, SiteSteps, SizeSymbol
from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.functions.sizes.size_proof import are_given_the_same, are_proven
from longhand.schedule.functions.sizes.size_sums import told_by_namesake, told_by_symbols
from longhand.schedule.functions.sizes.size_symbols import with_size_symbols
from longhand.schedule.plan import Launch, PlanStep

aten = torch.ops.aten
Shapes = dict[str, tuple[tuple[int, ...], ...]]  # by the letter of a tensor: its shape in each module
Words = dict[str, tuple[str | None, ...]]


def buffer(name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Buffer:
    stride = tuple(int(torch.tensor(shape[dim + 1 :]).prod()) for dim in range(len(shape)))
    return Buffer(name, BufferKind.INTERMEDIATE, dtype, shape, stride)


def alike_of(
    steps: Sequence[PlanStep], given: Sequence[str] = ("x",), weights: Sequence[str] = ()
) -> AlikeSteps:
    """What modules do alike that are given tensors and make y, before their sizes are symbols."""
    places = range(len(steps))
    sites = tuple(
        SiteSteps(
            (steps[place],),
            {},
            tuple(f"{one}{place}" for one in given),
            {f"{one}{place}": f"{one}.weight" for one in weights},
            (f"y{place}",),
        )
        for place in places
    )
    inputs = tuple(tuple(f"{one}{place}" for place in places) for one in given)
    return AlikeSteps(sites, inputs, (tuple(f"y{place}" for place in places),), (), ())


def in_symbols(
    shapes: Shapes,
    steps: list[Launch] | list[Extern],
    words: Words | None = None,
    weights: tuple[str, ...] = (),
    tables: tuple[str, ...] = (),
) -> AlikeSteps | None:
    """Modules that are given x (and more of `shapes`) and make y."""
    known = words or {}
    given = [letter for letter in shapes if letter != "y" and letter not in weights]
    buffers = {
        f"{letter}{place}": buffer(
            f"{letter}{place}", shape, torch.int64 if letter in tables else torch.float32
        )
        for letter, of in shapes.items()
        for place, shape in enumerate(of)
    }
    alike = alike_of(steps, given, weights)
    variables = {f"{letter}0": letter for letter in shapes}
    found = with_size_symbols(
        alike, buffers, lambda name, rank: known.get(name, (None,) * rank), variables, variables.values()
    )
    if found is not None:  # whatever was said of modules is what they did
        for place, (before, after) in enumerate(zip(steps, found.sites, strict=True)):
            at = {one.size: one.sizes[place] for one in found.symbols}
            assert numbers_in(after.steps[0], at) == numbers_in(before, at)
    return found


def numbers_in(step: object, at: dict[object, int]) -> list[int]:
    """The sizes of a launch, or of the views of a call, with numbers in the place of symbols."""
    sizes: list[Size] = []
    if isinstance(step, Launch):
        sizes += [*step.sizes, *step.ints]
    if isinstance(step, Extern):
        views = (call for view in step.args if isinstance(view, View) for call in view.calls)
        sizes += [size for call in views for size in call.args[0]]
    return [size if isinstance(size, int) else int(size.subs(at)) for size in sizes]


def launches(*sizes: tuple[int, ...]) -> list[Launch]:
    return [Launch("kernel", (f"x{place}", f"y{place}"), of) for place, of in enumerate(sizes)]


def views(*sizes: tuple[int, ...]) -> list[Extern]:
    return [
        Extern(
            aten.relu.default,
            (View(f"x{place}", of, (1,) * len(of), calls=(ViewCall(aten.view.default, (of,), "seen"),)),),
            (),
            (f"y{place}",),
        )
        for place, of in enumerate(sizes)
    ]


def told_of(found: AlikeSteps | None) -> list[str]:
    assert found is not None
    step = found.sites[0].steps[0]
    sizes = step.sizes if isinstance(step, Launch) else step.args[0].calls[0].args[0]  # type: ignore[union-attr]
    return [str(size) for size in sizes]


IMAGES: Shapes = {"x": ((2, 96, 16, 16), (2, 192, 8, 8)), "y": ((2, 96, 16, 16), (2, 192, 8, 8))}
OF_IMAGE: Words = {"x0": ("batch", "channels", "height", "width")}


def test_dimensions_of_what_is_given_tell_a_launch() -> None:
    found = in_symbols(IMAGES, launches((2 * 256, 96), (2 * 64, 192)), OF_IMAGE)
    assert told_of(found) == ["batch*height*width", "channels"]
    assert found is not None
    assert [one.word for one in found.symbols if one.is_told] == ["channels", "height", "width", "batch"]


def test_height_and_width_stay_two_sizes_though_images_are_square() -> None:
    found = in_symbols(IMAGES, views((2, 96, 16, 16), (2, 192, 8, 8)), OF_IMAGE)
    assert told_of(found) == ["2", "channels", "height", "width"]


BESIDE_A_WEIGHT: Shapes = {"x": ((2, 10), (2, 10)), "w": ((96, 10), (192, 10)), "y": ((2, 96), (2, 192))}


def test_a_weight_tells_what_no_tensor_does() -> None:
    steps = [
        Launch("kernel", (f"x{at}", f"w{at}", f"y{at}"), sizes)
        for at, sizes in enumerate(((2, 96), (2, 192)))
    ]
    assert told_of(in_symbols(BESIDE_A_WEIGHT, steps, weights=("w",))) == ["2", "w_channels"]


def test_what_stands_elsewhere_tells_nothing_though_it_is_as_large() -> None:
    assert in_symbols(BESIDE_A_WEIGHT, launches((2, 96), (2, 192)), weights=("w",)) is None


def test_a_batch_of_two_is_no_pair_of_heads() -> None:
    """What is the same in all modules is no symbol, and stands for no factor of what differs."""
    words: Words = {"x0": ("batch", "channels"), "seen": (None, "num_heads", None)}
    shapes: Shapes = {"x": ((2, 64), (2, 128)), "y": ((2, 64), (2, 128))}
    found = in_symbols(shapes, views((2, 2, 32), (2, 4, 32)), words)
    assert told_of(found) == ["2", "num_heads", "32"]
    assert found is not None
    assert [(one.word, one.sizes) for one in found.symbols if not one.is_told] == [("num_heads", (2, 4))]


def test_a_small_size_with_a_word_of_its_own_is_not_joined_with_another() -> None:
    words: Words = {"x0": ("batch", "height", None), "seen": (None, "num_heads", None)}
    shapes: Shapes = {"x": ((2, 4, 96), (2, 8, 96)), "y": ((2, 4, 96), (2, 8, 96))}
    assert told_of(in_symbols(shapes, views((2, 4, 96), (2, 8, 96)), words)) == ["2", "num_heads", "96"]
    words["seen"] = (None, "height", None)
    assert told_of(in_symbols(shapes, views((2, 4, 96), (2, 8, 96)), words)) == ["2", "height", "96"]


def test_a_table_of_places_tells_no_number_of_something_else() -> None:
    shapes: Shapes = {"x": ((2, 9), (2, 9)), "t": ((4, 4), (8, 8)), "y": ((2, 4), (2, 8))}
    assert in_symbols(shapes, launches((2, 4), (2, 8)), tables=("t",)) is None


def test_a_number_that_nothing_tells_and_that_has_no_word_is_no_function() -> None:
    assert in_symbols(IMAGES, launches((35, 96), (11, 192)), OF_IMAGE) is None


def test_a_few_times_a_width_is_told_and_a_few_times_a_small_size_is_not() -> None:
    width = SizeSymbol("width", (96, 192), is_told=True)
    lines = SizeSymbol("lines", (4, 8), is_told=True)
    told = told_by_symbols((3 * 96, 3 * 192), [width, lines], [])
    assert told is not None and str(told) == "3*width"
    assert told_by_symbols((12, 24), [lines], []) is None


def test_an_offset_is_a_sum_times_an_image() -> None:
    before = SizeSymbol("before", (64, 128), is_told=True, source="x")
    height, width = (SizeSymbol(one, (16, 8), is_told=True, source="z") for one in ("height", "width"))
    growth = SizeSymbol("growth", (32, 32), is_told=True)
    offsets = tuple(-(size + 32) * side * side for size, side in ((64, 16), (128, 8)))
    told = told_by_symbols(offsets, [before, height, width], [growth])
    assert told is not None and str(told) == "-height*width*(before + growth)"


def test_parts_of_a_width_are_told() -> None:
    width = SizeSymbol("width", (1536, 768), is_told=True)
    told = [told_by_symbols(tuple(size // of * n for size in width.sizes), [width], []) for of, n in _PARTS]
    assert [str(one) for one in told] == ["width/2", "width/3", "3*width/4", "width/8"]
    lines = SizeSymbol("lines", (6, 12), is_told=True)  # of small sizes no more than every other one
    assert str(told_by_symbols((3, 6), [lines], [])) == "lines/2"
    assert told_by_symbols((2, 4), [lines], []) is None


_PARTS = ((2, 1), (3, 1), (4, 3), (8, 1))  # (of how many, so many)


def test_two_sizes_make_a_product_where_one_tensor_has_both() -> None:
    """Whichever had the first of them first."""
    channels = SizeSymbol("channels", (768, 384), is_told=True, source="d_x")
    lines = SizeSymbol("lines", (5, 9), is_told=True, source="x")
    both = (5 * 768, 9 * 384)
    assert told_by_symbols(both, [channels, lines], []) is None
    channels = dataclasses.replace(channels, sources=frozenset(["d_x", "x"]))
    assert str(told_by_symbols(both, [channels, lines], [])) == "channels*lines"


def test_heads_are_so_many_times_a_width_that_is_the_same_in_all() -> None:
    heads = SizeSymbol("heads", (6, 12), is_told=True)
    dim, batch = (SizeSymbol(word, (n, n), is_told=True) for word, n in (("dim", 32), ("batch", 2)))
    assert str(told_by_symbols((3 * 6 * 32, 3 * 12 * 32), [heads], [dim, batch])) == "3*dim*heads"
    assert told_by_symbols((3 * 6 * 2, 3 * 12 * 2), [heads], [batch]) is None  # no batch is part of a width


def test_a_size_without_a_word_is_told_by_one_with_a_word() -> None:
    """Of two sizes with one word the second has none of its own: twice the first says what it is."""
    half, whole = SizeSymbol("width", (6, 12), is_told=True), (12, 24)
    assert str(told_by_namesake(whole, "width", [half])) == "2*width"
    assert told_by_namesake(whole, "height", [half]) is None
    assert told_by_namesake((7, 9), "width", [half]) is None


def test_what_a_library_makes_and_a_function_only_hands_on_may_lie_in_any_order() -> None:
    width = (64, 128)
    buffers = {f"{one}{at}": buffer(f"{one}{at}", (4, size)) for one in "xy" for at, size in enumerate(width)}
    buffers["y1"] = dataclasses.replace(buffers["y1"], stride=(1, 4))
    steps = views((4, 64), (4, 128))
    plain = alike_of(steps)
    variables = {f"{letter}0": letter for letter in "xy"}
    found = with_size_symbols(
        plain, buffers, lambda name, rank: (None,) * rank, variables, variables.values()
    )
    assert found is not None
    read = [
        dataclasses.replace(site, steps=(step, Launch("kernel", (f"y{at}",), (4,))))
        for at, (site, step) in enumerate(zip(plain.sites, steps, strict=True))
    ]
    plain = dataclasses.replace(plain, sites=tuple(read))
    assert (
        with_size_symbols(plain, buffers, lambda name, rank: (None,) * rank, variables, variables.values())
        is None
    )


def test_tensors_and_views_of_other_ranks_are_no_function() -> None:
    assert in_symbols(IMAGES, views((2, 96, 256), (2, 192, 8, 8)), OF_IMAGE) is None
    shapes: Shapes = {"x": ((2, 96, 4), (2, 192, 8, 8)), "y": ((2, 96), (2, 192))}
    assert in_symbols(shapes, launches((2, 96), (2, 192)), OF_IMAGE) is None


def test_two_tensors_make_no_product() -> None:
    """Of two modules nearly any two numbers are a product of something."""
    one, two = (
        SizeSymbol(word, of, is_told=True, source=word) for word, of in (("a", (3, 5)), ("b", (7, 9)))
    )
    assert told_by_symbols((21, 45), [one, two], []) is None


def test_a_batch_is_no_factor_of_a_number_that_is_the_same_in_all() -> None:
    """Rows of 6 channels: 6 * height * width, and not 3 * batch * height * width."""
    shapes: Shapes = {"x": ((2, 6, 32, 32), (2, 6, 8, 8)), "y": ((2, 6, 32, 32), (2, 6, 8, 8))}
    steps = [
        Launch("kernel", (f"x{at}", f"y{at}"), (2, 6, size * size), (6 * size * size,))
        for at, size in enumerate((32, 8))
    ]
    found = in_symbols(shapes, steps, OF_IMAGE)
    assert found is not None
    step = found.sites[0].steps[0]
    assert isinstance(step, Launch) and str(step.ints[0]) == "6*height*width"
    batch, height, width = (
        SizeSymbol(word, of, is_told=True, source="x")
        for word, of in (("batch", (2, 2)), ("height", (32, 8)), ("width", (32, 8)))
    )
    assert told_by_symbols((6 * 1024, 6 * 64), [height, width], [batch]) is None


def test_a_function_is_proven_for_each_module() -> None:
    """A number that comes out otherwise for one of them, wherever it stands, is seen."""
    buffers = {
        f"{letter}{at}": buffer(f"{letter}{at}", shape)
        for letter in "xy"
        for at, shape in enumerate(IMAGES[letter])
    }
    plain = alike_of(
        [Launch("kernel", (f"x{at}", f"y{at}"), sizes) for at, sizes in enumerate(((512, 96), (128, 192)))]
    )
    shared = in_symbols(IMAGES, launches((512, 96), (128, 192)), OF_IMAGE)
    assert shared is not None and are_proven(shared, plain, buffers)
    first = shared.sites[0]
    step = first.steps[0]
    assert isinstance(step, Launch)
    wrong = dataclasses.replace(step, sizes=(step.sizes[0], 2 * step.sizes[1]))
    for of_first in (
        dataclasses.replace(first, steps=(wrong,)),
        dataclasses.replace(first, buffers={**first.buffers, "y0": buffers["y0"]}),
        dataclasses.replace(
            first, buffers={name: one for name, one in first.buffers.items() if name != "x0"}
        ),
    ):
        assert not are_proven(dataclasses.replace(shared, sites=(of_first, shared.sites[1])), plain, buffers)


def test_a_function_gives_its_calls_what_each_module_does() -> None:
    one, other = (called("mixer", padding) for padding in (1, 2))
    assert are_given_the_same(one, one) and not are_given_the_same(one, other)
    images = (View("x", (2, 8, 4, 4), (128, 16, 4, 1)), View("w", (8, 8, 3, 3), (72, 9, 3, 1)))
    near, far = (
        SiteSteps(
            (
                Extern(
                    aten.convolution.default, (*images, None, [1], [padding], [1], False, [0], 1), (), ("y",)
                ),
            ),
            {},
            ("x",),
            {},
            ("y",),
        )
        for padding in (1, 2)
    )
    assert are_given_the_same(near, near) and not are_given_the_same(near, far)


def called(name: str, padding: int) -> SiteSteps:
    call = SharedCall(1, name, "", ("x",), (("padding", padding),), ("y",), (), frozenset(), {})
    return SiteSteps((Launch("kernel", ("x", "y"), (2, 96)),), {0: call}, ("x",), {}, ("y",))
