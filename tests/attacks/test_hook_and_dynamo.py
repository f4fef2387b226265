"""The frame hook among others that take frames: torch's Dynamo in other threads, inside and around; torch.jit.trace;
greenlets; sub-interpreters. Each is right, or refused with words; none crashes, and none captures longhand itself.
"""

import contextvars
import functools
import os
import subprocess
import sys
import textwrap

import pytest
import torch

import longhand
from longhand.capture.bytecode.hook import frame_hook

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    longhand.reset()
    yield
    longhand.reset()
    assert frame_hook().pause() is None


def in_a_process(text, *, seconds=600):
    """Runs a program that may crash; its output."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_threads_that_alternate_with_dynamo():
    """Each step of a thread happens while the other is inside, in every order."""
    in_a_process("""
        import itertools, threading, torch, longhand

        def inner(x):
            return x * 2 + 1

        turn = threading.Condition()
        state = {"schedule": "", "at": 0}

        def step(me):
            with turn:
                turn.wait_for(lambda: state["at"] >= len(state["schedule"]) or state["schedule"][state["at"]] == me, 20)
                state["at"] += 1
                turn.notify_all()

        @torch.compiler.disable
        def meet(me):
            step(me)

        def of(me, compiled):
            def body(x):
                y = inner(x)
                meet(me)
                return inner(y)
            run = compiled(body)
            def work():
                for _ in range(3):
                    step(me)
                    assert torch.equal(run(torch.ones(3)), torch.full((3,), 7.0))
                    step(me)
            return work

        works = {
            "L": of("L", lambda f: longhand.compile(f, frontend="bytecode")),
            "D": of("D", lambda f: torch.compile(f, backend="eager")),
        }
        for work in works.values():  # compiled beforehand, one by one
            work()
        schedules = {"".join(s) for s in itertools.islice(itertools.permutations("LLLLDDDD"), 0, 40320, 1693)}
        for schedule in sorted(schedules):
            state.update(schedule=schedule, at=0)
            threads = [threading.Thread(target=work) for work in works.values()]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        def deep(n):
            return deep(n - 1) + 1 if n else 0
        assert deep(500) == 500
        """)


def cosine(x):
    return x.cos() * 3


def test_dynamo_inside():
    """A function that torch.compile captures is a break, told by its name; both parts are right."""
    inside = torch.compile(cosine, backend="eager")
    module = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), backend="eager")

    def function(x):
        return inside(x * 2 + 1).sin() + 1

    def with_module(x):
        return module(x * 2) + 1

    x = torch.randn(3, 4)
    with torch.no_grad():
        for original in (function, with_module):
            for _ in range(2):
                compiled = longhand.compile(original, frontend="bytecode")
                torch.testing.assert_close(compiled(x), original(x))
        told = longhand.explain(function)(x)
    assert "torch.compile" in told.breaks[0].reason and len(told.graphs) == 2


def test_dynamo_around():
    """Dynamo breaks at the call and captures nothing of longhand: not its entries, not its compiler, not the unit."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module

    inside = longhand.compile(cosine, frontend="bytecode")

    def function(x):
        return inside(x + 1) * 2

    x = torch.randn(5)
    run = torch.compile(function, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(run(x), function(x))
    assert len(graphs) == 2  # before and after the call


def test_a_recording_of_jit_trace():
    """It records what eager does, before and after the first call."""

    def function(x):
        return (x * 2).sin() + 1

    compiled = longhand.compile(function, frontend="bytecode")
    x = torch.randn(4)
    for _ in range(2):
        traced = torch.jit.trace(compiled, (x,))
        assert "aten::sin" in str(traced.graph)
        torch.testing.assert_close(traced(x + 1), function(x + 1))
        torch.testing.assert_close(compiled(x), function(x))
    assert len(longhand.explain(function)(x).graphs) == 1


def test_contexts_that_interleave(hook):
    """As greenlets do: each context's hook is its own, in whatever order they come and go."""

    def called():
        return "original"

    def step():
        previous = hook.enable(lambda function: (lambda f: "replaced") if function is called else None)
        yield called()
        hook.disable(previous)
        yield called()

    contexts = [contextvars.copy_context() for _ in range(2)]
    steps = [step(), step()]
    hook.mark(called.__code__, None)
    assert [contexts[n].run(next, steps[n]) for n in (0, 1)] == ["replaced"] * 2
    assert called() == "original"  # in neither
    assert [contexts[n].run(next, steps[n]) for n in (0, 1)] == ["original"] * 2
    assert called() == "original" and hook.pause() is None


def test_greenlets():
    """Calls of several greenlets of one thread, each suspended in the middle of its own."""
    greenlet = pytest.importorskip("greenlet")
    main = greenlet.getcurrent()
    outside = []

    def pause():
        main.switch()

    def function(x):
        y = x * 2 + 1
        pause()
        return y.sin() + 1

    expected = (torch.ones(3) * 2 + 1).sin() + 1
    compiled = longhand.compile(function, frontend="bytecode")
    for _ in range(3):
        results = []
        work = functools.partial(lambda found: found.append(compiled(torch.ones(3))), results)
        runs = [greenlet.greenlet(work) for _ in range(3)]
        for order in ((0, 1, 2), (1, 0, 2)):
            for n in order:
                runs[n].switch()
                outside.append(frame_hook().pause())
        assert len(results) == 3
        for result in results:
            torch.testing.assert_close(result, expected)
    assert set(outside) == {None}


def test_sub_interpreters():
    """The hook is the main interpreter's; a sub-interpreter is told so."""
    interpreters = pytest.importorskip("_xxsubinterpreters", exc_type=ImportError)
    said = in_a_process(f"""
        import {interpreters.__name__} as interpreters, sys
        import longhand.capture._frame_eval as hook
        other = interpreters.create()
        text = '''
        import importlib.machinery, importlib.util
        loader = importlib.machinery.ExtensionFileLoader("longhand.capture._frame_eval", PATH)
        try:
            spec = importlib.util.spec_from_loader(loader.name, loader)
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            module.enable(print)
        except (ImportError, RuntimeError) as error:
            print(error)
        '''
        import textwrap
        interpreters.run_string(other, textwrap.dedent(text).replace("PATH", repr(hook.__file__)))
        """)
    # From 3.12 on, CPython says it before the hook can.
    assert "sub-interpreter" in said or "does not support loading in subinterpreters" in said
