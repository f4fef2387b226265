"""Answers that are found once, and kept with the object that is asked: one that does not change."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

_Owner = TypeVar("_Owner")
_Thing = TypeVar("_Thing", bound=object)
_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def once_for(function: Callable[[_Thing], _Answer]) -> Callable[[_Thing], _Answer]:
    """A function of one object, a frozen one: its answer is the same each time, and nobody changes it."""
    place = f"_answer_of_{function.__qualname__}"

    @functools.wraps(function)
    def kept(thing: _Thing, /) -> _Answer:
        answers: dict[str, Any] = thing.__dict__
        if place not in answers:
            answers[place] = function(thing)
        answer: _Answer = answers[place]
        return answer

    return kept


def once(
    method: Callable[Concatenate[_Owner, _Given], _Answer],
) -> Callable[Concatenate[_Owner, _Given], _Answer]:
    """A method that keeps its answers with the object: each is found when it is asked for the first time."""
    place = f"_answers_of_{method.__name__}"

    @functools.wraps(method)
    def kept(owner: _Owner, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        answers: dict[Any, _Answer] = owner.__dict__.setdefault(place, {})
        key = (args, tuple(kwargs.items())) if kwargs else args
        try:
            return answers[key]
        except KeyError:
            answers[key] = answer = method(owner, *args, **kwargs)
            return answer

    return kept


def listed_once(
    method: Callable[Concatenate[_Owner, _Given], Iterator[_Answer]],
) -> Callable[Concatenate[_Owner, _Given], Iterator[_Answer]]:
    """As `once`, for what is told one by one: each caller begins with the first."""

    @once
    @functools.wraps(method)
    def told(owner: _Owner, /, *args: _Given.args, **kwargs: _Given.kwargs) -> tuple[_Answer, ...]:
        return tuple(method(owner, *args, **kwargs))

    @functools.wraps(method)
    def again(owner: _Owner, /, *args: _Given.args, **kwargs: _Given.kwargs) -> Iterator[_Answer]:
        return iter(told(owner, *args, **kwargs))

    return again
