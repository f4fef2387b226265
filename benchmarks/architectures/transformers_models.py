"""Every architecture of transformers that can be made from a configuration: by the rule of `shrinking`, or by hand."""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from benchmarks.architectures import transformers_given as given
from benchmarks.architectures.example import Example, Factory
from benchmarks.architectures.scaling import scaled
from benchmarks.architectures.shrinking import missing_settings, shrunk
from benchmarks.architectures.transformers_asked import completed, corrections
from benchmarks.architectures.transformers_inputs import candidates
from benchmarks.architectures.transformers_settings import SETTINGS

_MOST_PARAMETERS = 20_000_000
_MOST_WHERE_NO_OTHER = 60_000_000  # what a package makes in one size only
_N_CORRECTIONS = 3
_MOST_SECONDS = 40.0  # of this process, until no other way is begun
# Factors of widths; whether images stay as large as they are, and whether sizes that are left open are given.
_WAYS = (
    (8, False, False),
    (8, True, False),
    (8, False, True),
    (8, True, True),
    (16, False, False),
    (16, True, True),
    (4, False, False),
    (4, True, True),
    (2, False, False),
    (1, False, False),
)


def transformers_factories() -> dict[str, Factory]:
    """By model type; what is made by hand has its name, or one of its own where it is a variant."""

    def factory(name: str) -> Factory:
        def make() -> Example:
            module, kwargs = make_generic(name, **given.SETTINGS.get(name, {}))
            return without_ties(module), (), kwargs

        return make

    def by_hand(make: Callable[[], tuple[nn.Module, dict[str, Any]]]) -> Factory:
        def make_example() -> Example:
            module, kwargs = make()
            return without_ties(module), (), kwargs

        return make_example

    factories = {name: factory(name) for name in MODEL_MAPPING_NAMES if name in CONFIG_MAPPING_NAMES}
    return factories | {name: by_hand(make) for name, make in SETTINGS.items()}


def without_ties(module: nn.Module) -> nn.Module:
    """The module with random numbers for parameters that are all zero: those make equal what they scale.

    Which of equal values `topk` takes nobody promises: layout and device decide, and the results differ.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.numel() > 1 and not parameter.any():
                parameter.normal_(std=0.02)
    return module


def make_generic(
    name: str, n_layers: int | None = None, /, **settings: Any
) -> tuple[nn.Module, dict[str, Any]]:
    """The architecture of a model type, small, with inputs by the names of its forward's parameters.

    Args:
        name: The model type.
        n_layers: As `shrunk` takes it.
        settings: Of its configuration.

    Raises:
        Exception: Whatever the class raises, or ValueError: the rule does not fit it.
    """
    names = MODEL_MAPPING_NAMES[name]
    model_class = getattr(transformers, names if isinstance(names, str) else names[0])
    config_class = _config_class(name, model_class)
    attempt = _Attempt(name, model_class)
    ways = list(_smaller_ones(config_class, n_layers, settings))
    deadline = time.process_time() + _MOST_SECONDS
    for make in ways:
        if time.process_time() > deadline:
            break
        if made := attempt.made(make, _MOST_PARAMETERS) or attempt.only_in_eager:
            return made
    if attempt.too_large:
        _, make = min(attempt.too_large, key=operator.itemgetter(0))
        if made := attempt.made(make, _MOST_WHERE_NO_OTHER) or attempt.only_in_eager:
            return made
    raise attempt.farthest()


class _TooLargeError(ValueError):
    """A model has more parameters than one of the table may have."""

    def __init__(self, n_parameters: int) -> None:
        super().__init__(f"{n_parameters:,} parameters: the rule does not make it small")
        self.n_parameters = n_parameters


class _Attempt:
    """What came of the ways to make a model that were tried."""

    def __init__(self, name: str, model_class: Any) -> None:
        self._name = name
        self._model_class = model_class
        self.step = 0
        self.too_large: list[tuple[int, Callable[[], Any]]] = []
        self.failures: list[tuple[int, Exception]] = []
        self.only_in_eager: tuple[nn.Module, dict[str, Any]] | None = None

    def made(self, make: Callable[[], Any], most: int) -> tuple[nn.Module, dict[str, Any]] | None:
        """The model of a configuration, with inputs that it runs with; None if there are none."""
        try:
            self.step = 0
            config = make()
            self.step = 1
            module = _small_module(self._model_class, config, most)
            self.step = 2
            by_hand = given.INPUTS.get(self._name)
            for n_corrections in (0, _N_CORRECTIONS):  # what runs as it is goes first
                for inputs in [by_hand(config)] if by_hand else candidates(self._model_class, config):
                    called = self._called(module, inputs, n_corrections)
                    if called is not None and _runs_when_compiled(module, called):
                        return module, called
                if self.only_in_eager is not None:
                    break
        except ImportError:
            raise
        except _TooLargeError as error:
            self.too_large.append((error.n_parameters, make))
            self.failures.append((self.step, error))
        except Exception as error:
            self.failures.append((self.step, error))
        return None

    def _called(self, module: nn.Module, inputs: dict[str, Any], n_corrections: int) -> dict[str, Any] | None:
        """Inputs that the module runs with: these, or these with the sizes that it says it misses; None if none do."""
        try:
            with torch.no_grad():
                module(**inputs)
        except Exception as error:
            self.failures.append((self.step, error))
            others = corrections(getattr(module, "config", None), inputs, error) if n_corrections else []
            tries = (self._called(module, other, n_corrections - 1) for other in others)
            return next((one for one in tries if one is not None), None)
        self.only_in_eager = self.only_in_eager or (module, inputs)
        return inputs

    def farthest(self) -> Exception:
        """The first failure of those that came farthest; what else failed there is noted with it."""
        step = max((step for step, _ in self.failures), default=0)
        errors = [error for one, error in self.failures if one == step]
        if not errors:
            return ValueError("forward takes no input that is known")
        for note in list(dict.fromkeys(f"{type(error).__name__}: {error}"[:400] for error in errors))[1:]:
            errors[0].add_note(note)
        return errors[0]


def _smaller_ones(
    config_class: type, n_layers: int | None, settings: dict[str, Any]
) -> Iterator[Callable[[], Any]]:
    """Ways to make a configuration small: by the names of its settings; else by one factor, large to small."""
    yield lambda: shrunk(config_class, n_layers, **settings)
    if n_layers is not None:
        return
    yield lambda: shrunk(config_class, **{**missing_settings(config_class()), **settings})
    for factor, keeps_images, is_filled in _WAYS:
        yield functools.partial(_scaled, config_class, factor, settings, keeps_images, is_filled)


def _scaled(
    config_class: type, factor: int, settings: dict[str, Any], keeps_images: bool, is_filled: bool
) -> Any:
    return scaled(config_class(), factor, settings, keeps_images=keeps_images, is_filled=is_filled)


def _config_class(name: str, model_class: Any) -> type:
    """What the model is made of: of a decoder that stands for a whole of three, the part that its class takes."""
    whole: type = getattr(transformers, CONFIG_MAPPING_NAMES[name])
    own = getattr(model_class, "config_class", None)
    parts = (getattr(whole, "sub_configs", None) or {}).values()
    return own if own is not None and own in parts else whole


def _small_module(model_class: Any, config: Any, most: int) -> nn.Module:
    for is_last in (False,) * _N_CORRECTIONS + (True,):
        try:
            with torch.device("meta"):
                n_parameters = sum(p.numel() for p in model_class(config).parameters())
            break
        except AttributeError as error:
            if is_last or not completed(config, error):
                raise
    if n_parameters > most:
        raise _TooLargeError(n_parameters)
    module: nn.Module = model_class(config).eval()
    return module


def _runs_when_compiled(module: nn.Module, inputs: dict[str, Any]) -> bool:
    """Whether the model's own code runs where it is told that it is compiled: some then make no mask by themselves."""
    try:
        with torch.no_grad(), mock.patch("torch.compiler.is_compiling", lambda: True):
            module(**inputs)
    except Exception:
        return False
    return True
