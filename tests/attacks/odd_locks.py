"""Locks that a stranger may have written: random changes of a real one, and files that are none."""

import copy
import json
import random

DEEP = "[" * 100_000
POISON = "x\n#define long short\nopen('EXECUTED', 'w')"
VALUES = (
    None,
    True,
    0,
    -1,
    99,
    10**30,
    1e308,
    float("nan"),
    float("-inf"),
    "",
    "x" * 20_000,
    "\u2028\u202e\x1b[2J[red]\0",
    "\udc80",
    POISON,
    "../../../../etc/passwd",
    "/dev/zero",
    "kernels/../../x.py",
    "os:abort",
    "cuda",
    [],
    [[]],
    {},
    {"": ""},
    {"a": {"b": {"c": [None]}}},
    ["a", 1, None],
    [["a"], ["b", 1]],
)


def odd_locks(count, lock, seed=0):
    """Texts of locks, as bytes."""
    source = random.Random(seed)
    yield from (
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        DEEP.encode(),
        b'{"a":' * 100_000,
        json.dumps(lock).encode("utf-16"),
        b"\xef\xbb\xbf" + json.dumps(lock).encode(),
        json.dumps({**lock, "format": 99}).encode(),
        b"<<<<<<< ours\n" * 50_000,
        b"<<<<<<< ours\n{}\n=======\n[]\n>>>>>>> theirs\n",
        b'{"format": ' + b"9" * 10_000 + b"}",
    )
    for _ in range(count - 13):
        yield _changed(lock, source)


def _changed(lock, source):
    found = copy.deepcopy(lock)
    for _ in range(source.randint(1, 3)):
        _change(found, source)
    text = json.dumps(found, indent=1).encode()
    match source.randrange(12):
        case 0:
            place = source.randrange(len(text))
            return (
                text[:place] + source.randbytes(source.randint(0, 9)) + text[place + source.randint(0, 99) :]
            )
        case 1:
            lines = text.splitlines(keepends=True)
            place = source.randrange(len(lines))
            return b"".join(
                [
                    *lines[:place],
                    b"<<<<<<< a\n",
                    *lines[place : place + 3],
                    b"=======\n",
                    b">>>>>>> b\n",
                    *lines[place:],
                ]
            )
    return text


def _change(lock, source):
    """Another value, key or nothing at a random place, near the top as often as deep inside."""
    here = lock
    while True:
        keys = list(here) if isinstance(here, dict) else range(len(here))
        if not keys:
            return
        key = source.choice(keys)
        if isinstance(here[key], dict | list) and here[key] and source.random() < 0.7:
            here = here[key]
            continue
        match source.randrange(4):
            case 0 if isinstance(here, dict):
                here[source.choice((POISON, "../x", "", "class", "a b", "/etc/passwd"))] = here.pop(key)
            case 1:
                del here[key]
            case _:
                here[key] = copy.deepcopy(source.choice(VALUES))
        return
