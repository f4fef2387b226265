"""The commands and their options: generate, verify, bench, tune, build, explain; the others are in *_commands.py.

What a command does is in a module of its own, imported when it runs: torch takes seconds, and --help, --version and
completion need none of it.
"""

from __future__ import annotations

import importlib
import platform
import time
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from longhand.cli.edit_commands import check_command, diff_command, doing, eject_command, example
from longhand.cli.handoff_commands import accept_command, handoff_command
from longhand.cli.review_commands import view_command
from longhand.cli.settings import settings_here
from longhand.cli.styles import Style, reporting, reporting_as_json
from longhand.cli.terminal import Command, manners
from longhand.options import Mode


def run(arguments: list[str]) -> int:
    """Runs one command line; the exit code. Raises LonghandError and whatever is a bug."""
    try:
        return commands.main(args=arguments, prog_name="longhand", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130


def _show_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        metadata = importlib.import_module("importlib.metadata")
        versions = [f"{name} {metadata.version(name)}" for name in ("longhand", "torch", "triton")]
        click.echo(f"{versions[0]} ({', '.join(versions[1:])}, Python {platform.python_version()})")
        context.exit()


@click.group(
    params=manners(), context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Tell versions.",
)
@click.pass_context
def commands(context: click.Context) -> None:
    """Compiles PyTorch models to source code that you own.

    Exit codes: 0 fine, 1 the answer is no, 2 wrong usage or bad input, 3 a bug.
    """
    context.default_map = settings_here(commands.commands)


commands.command_class = Command
for command in (
    check_command,
    diff_command,
    eject_command,
    handoff_command,
    accept_command,
    view_command,
):
    commands.add_command(command)

_FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
_FACTORY = click.option(
    "--factory", metavar="MODULE:FACTORY", help="How to make the original; by default as the lock says."
)
_KERNELS = click.option(
    "--kernel", "kernels", multiple=True, metavar="NAME", help="Only this kernel; may be repeated."
)


@commands.command(
    "generate",
    epilog=example(
        "longhand generate examples.attention:small --out attention_cpu\n  longhand generate attention_cpu"
    ),
)
@click.argument("targets", metavar="MODULE:FACTORY | [DIR...]", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="The folder to write, with MODULE:FACTORY.")
@click.option("--all", "is_all", is_flag=True, help="Renew every unit below this folder.")
@click.option("--replace", "replaces", is_flag=True, help="Change what a unit is for.")
@click.option(
    "--conflict",
    type=click.Choice(["new", "merge"]),
    default="new",
    show_default=True,
    help="The new text as FILE.new, or both in FILE between git's markers.",
)
@click.option("--device", help="cpu or cuda; by default where the model's tensors are.")
@click.option("--arch", help="The CUDA architecture, such as sm_90. No GPU is needed.")
@click.option("--mode", default="default", show_default=True, help=", ".join(mode.value for mode in Mode))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=DTYPE[SIZES]",
    help='Like "x=float32[4,1024]", once for each.',
)
@click.option("--train/--no-train", default=False, help="Write the backward pass too.")
@click.option(
    "--memory-budget",
    default=1.0,
    show_default=True,
    help="With --train: the part kept of what is cheapest to keep for the backward.",
)
@click.option("--dynamic", multiple=True, metavar="NAME:DIM", help="A size that may vary, like x:0.")
@click.option(
    "--frontend", help="What captures: export, bytecode, uncompiled; by default whichever can, export first."
)
@click.option(
    "--allow-breaks", is_flag=True, help="With bytecode: a unit for each graph, if there are several."
)
@click.option("--run/--no-run", default=True, help="Run it once on the example before it is kept (default).")
@reporting
@click.pass_context
def generate_command(
    context: click.Context,
    /,
    targets: tuple[str, ...],
    out: Path | None,
    is_all: bool,
    replaces: bool,
    conflict: str,
    style: Style,
    **options: Any,
) -> int:
    """Write a model as source code; keep and merge what you edited.

    The factory returns (model, args) or (model, args, kwargs). With --input,
    MODULE:FACTORY may be a function or a module class instead.

    Units that are there are renewed by their folders, or --all of them, with
    the options that they were made with. What a unit is for (its device, the
    backward pass, the sizes that vary) changes only with --replace.

    Its kernels are compiled meanwhile, and it is run once on the example,
    against eager (a CUDA unit without a GPU in Triton's interpreter). A kernel
    that fails becomes PyTorch calls, with a warning.

    Exit code 1 if your edits conflict with the new version, which then stands
    beside them as FILE.new, or if an edited kernel computes something else, or
    if the unit does not compute what eager does (then nothing is written);
    2 if an edit breaks what other files rely on; 3 for a bug in longhand.
    """
    given = {name for name in options if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    return doing("generating").generate(
        targets,
        out,
        options,
        given,
        is_all=is_all,
        replaces=replaces,
        conflict=conflict,
        style=style,
    )


@commands.command("verify", epilog=example("longhand verify generated/attention_cpu --sizes batch=1,7,64"))
@_FOLDER
@_FACTORY
@_KERNELS
@click.option(
    "--sizes",
    multiple=True,
    metavar="NAME=N,...",
    help="Of sizes that vary: what to try, beside the example. By default a few at random; `none` for none.",
)
@reporting
def verify_command(
    folder: Path, factory: str | None, kernels: tuple[str, ...], sizes: tuple[str, ...], style: Style
) -> int:
    """Compare a unit with the eager original, and each kernel with its reference.

    The references are longhand's own, from .base/: an edited one proves
    nothing. Where there is no GPU, a CUDA unit runs on the CPU, its kernels in
    Triton's interpreter.

    Sizes that may vary are tried at other values too. With several --sizes,
    each value of one goes with each of the others.

    A result may be at most twice as far from float64 as eager's is, or one
    unit in the last place. Exit code 1 if one is farther; where the model has
    changed since the unit was generated, it says so.
    """
    return doing("judging").verify(folder, factory, kernels, sizes, style=style)


@commands.command("bench", epilog=example("longhand bench generated/attention_cpu --turns 11"))
@_FOLDER
@_FACTORY
@click.option(
    "--turns", type=click.IntRange(min=1), default=7, show_default=True, help="Interleaved turns of each."
)
@click.option("--kernels", "only_kernels", is_flag=True, help="Not the whole model.")
@reporting_as_json
def bench_command(folder: Path, factory: str | None, turns: int, only_kernels: bool, is_json: bool) -> int:
    """Time a unit against eager and torch.compile, and each of its kernels.

    A kernel's time stands beside that of the kernel as longhand wrote it,
    where somebody edited it, and its bandwidth beside that of a plain copy. `longhand diff --markdown
    --bench` takes what --json prints.
    """
    return doing("measuring").bench(folder, factory, turns, only_kernels=only_kernels, is_json=is_json)


@commands.command("tune", epilog=example("longhand tune generated/attention_cpu --budget 60"))
@_FOLDER
@_KERNELS
@click.option("--all", "includes_persons", is_flag=True, help="Also change tunables that a person set.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long it may take, all kernels together.",
)
@reporting_as_json
def tune_command(
    folder: Path, kernels: tuple[str, ...], includes_persons: bool, budget: float, is_json: bool
) -> int:
    """Search faster tunables on this device, and edit the kernels' files.

    Every candidate is checked against longhand's own reference, in each call
    that the model makes of the kernel. A file is edited only if its kernel
    gets faster by more than the noise, measured in turns with the old one.
    What a person set stays. Ctrl-C keeps what was found.

    The sizes are those of the unit's example call.
    """
    begin = time.monotonic()
    tuning = doing("tuning")
    left = max(0.0, budget - (time.monotonic() - begin))
    return tuning.run_tune(folder, kernels, includes_persons, left, is_json)


@commands.command("build", epilog=example("longhand build generated/attention_cpu --wheel dist"))
@_FOLDER
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the built unit.")
@click.option("--wheel", "wheels", type=click.Path(path_type=Path), help="A folder for a wheel of it.")
@click.option(
    "--isa",
    "levels",
    multiple=True,
    metavar="LEVEL",
    help="Instructions to build for, like x86-64-v4; may be repeated. By default x86-64-v3.",
)
@click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="SM",
    help="GPUs to build for, like sm_90; may be repeated. By default the unit's.",
)
@click.option(
    "--sizes",
    multiple=True,
    metavar="NAME=N,N",
    help="Sizes that vary, to build for. By default powers of two.",
)
@click.option("--name", default="", help="The package; by default the unit's folder.")
@click.option("--version", default="1.0", show_default=True, help="The wheel's.")
@reporting_as_json
def build_command(
    folder: Path,
    out: Path | None,
    wheels: Path | None,
    levels: tuple[str, ...],
    archs: tuple[str, ...],
    sizes: tuple[str, ...],
    name: str,
    version: str,
    is_json: bool,
) -> int:
    """Build a unit's kernels, for where there is no compiler.

    The folder, or the wheel, holds the unit with what was compiled: shared
    objects of C++ kernels, binaries of Triton's for GPUs. It needs torch
    alone (and triton for a GPU). With several --isa or --arch the machine
    at hand decides.
    """
    build = doing("deploying").build
    return build(folder, out, wheels, levels, archs, sizes, name, version, is_json=is_json)


@commands.command("explain", epilog=example("longhand explain examples.gpt:small"))
@click.argument("factory", metavar="MODULE:FACTORY")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=DTYPE[SIZES]", help='Like "x=float32[4,1024]".'
)
@click.option("--frontend", default="bytecode", show_default=True, help="What captures: bytecode, dynamo.")
@reporting
def explain_command(factory: str, inputs: tuple[str, ...], frontend: str, style: Style) -> int:
    """Tell which graphs and kernels a call becomes, its guards, where it breaks and why."""
    return doing("generating").explain(factory, inputs, frontend, style=style)
