"""The commands: generate, verify, bench, explain, view; the others are in edit_commands.py and tune_command.py."""

from __future__ import annotations

from pathlib import Path

import click
import torch

from longhand import screen
from longhand.api import generate
from longhand.bench import bench
from longhand.edit_commands import check_command, diff_command, eject_command
from longhand.errors import VerificationError
from longhand.explanation import explain
from longhand.factory import dynamic_shapes, resolve
from longhand.kernel_times import time_kernels
from longhand.logs import set_logs_from_environment
from longhand.options import Mode
from longhand.original import read_lock
from longhand.parts import Parts
from longhand.tune_command import tune_command
from longhand.verify import verify


def run(arguments: list[str]) -> int:
    """Runs one command line; the exit code. Raises LonghandError and whatever is a bug."""
    set_logs_from_environment()
    try:
        return commands.main(args=arguments, prog_name="longhand", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
def commands() -> None:
    """Compiles PyTorch models to source code that you own.

    Exit codes: 0 fine, 1 the answer is no, 2 wrong usage or bad input, 3 a bug.
    """


for command in (check_command, diff_command, eject_command, tune_command):
    commands.add_command(command)

_FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
_FACTORY = click.option(
    "--factory", metavar="MODULE:FACTORY", help="How to make the original; by default as the lock says."
)


def _example(text: str) -> str:
    return f"\b\nFor instance:\n  {text}"


@commands.command(
    "generate", epilog=_example("longhand generate examples.attention:small --out attention_cpu")
)
@click.argument("factory", metavar="MODULE:FACTORY")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The folder to write.")
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
@click.option("--train", is_flag=True, help="Write the backward pass too.")
@click.option(
    "--memory-budget",
    default=1.0,
    show_default=True,
    help="With --train: the part kept of what is cheapest to keep for the backward.",
)
@click.option("--dynamic", multiple=True, metavar="NAME:DIM", help="A size that may vary, like x:0.")
@click.option("--frontend", default="export", show_default=True, help="What captures: export, bytecode.")
@click.option(
    "--allow-breaks", is_flag=True, help="With bytecode: a unit for each graph, if there are several."
)
@click.option("--no-run", is_flag=True, help="Keep it without running it once on the example.")
def generate_command(
    factory: str,
    out: Path,
    device: str | None,
    arch: str | None,
    mode: str,
    inputs: tuple[str, ...],
    train: bool,
    memory_budget: float,
    dynamic: tuple[str, ...],
    frontend: str,
    allow_breaks: bool,
    no_run: bool,
) -> int:
    """Write a model as source code; keep and merge what you edited.

    The factory returns (model, args) or (model, args, kwargs). With --input,
    MODULE:FACTORY may be a function or a module class instead.

    Its kernels are compiled meanwhile, and it is run once on the example,
    against eager (a CUDA unit without a GPU in Triton's interpreter). A kernel
    that fails becomes PyTorch calls, with a warning.

    Exit code 1 if your edits conflict with the new version, which then stands
    beside them as FILE.new, or if an edited kernel computes something else, or
    if the unit does not compute what eager does (then nothing is written);
    2 if an edit breaks what other files rely on; 3 for a bug in longhand.
    """
    with screen.working(f"generating {out}") as show:
        torch.manual_seed(0)
        call = resolve(factory, inputs)
        summary = generate(
            call.model,
            call.args,
            call.kwargs,
            out=out,
            device=device,
            arch=arch,
            mode=mode,
            dynamic_shapes=dynamic_shapes(call, dynamic),
            train=train,
            activation_memory_budget=memory_budget,
            factory=factory,
            inputs=inputs,
            dynamic=dynamic,
            frontend=frontend,
            allow_breaks=allow_breaks,
            sample=True,
            run=not no_run,
            listener=show,
        )
    if isinstance(summary, Parts):
        click.echo(str(summary))
        return 0
    screen.show_summary(summary)
    return 0 if summary.merge.is_good else 1


@commands.command("verify", epilog=_example("longhand verify generated/attention_cpu"))
@_FOLDER
@_FACTORY
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Only this kernel; may be repeated.")
def verify_command(folder: Path, factory: str | None, kernels: tuple[str, ...]) -> None:
    """Compare a unit with the eager original, and each kernel with its reference.

    The references are longhand's own, from .base/: an edited one proves
    nothing. Where there is no GPU, a CUDA unit runs on the CPU, its kernels in
    Triton's interpreter.

    A result may be at most twice as far from float64 as eager's is, or one
    unit in the last place. Exit code 1 if one is farther; where the model has
    changed since the unit was generated, it says so.
    """
    with screen.working(f"verifying {folder}"):
        result = verify(folder, factory, kernels)
    screen.show_verification(result)
    if not result.is_right and result.stale:
        raise VerificationError(
            f"{folder} is stale: {result.stale}, and it does not compute what its original computes now.",
            hint=f"Bring it up to date: longhand generate; `longhand check {folder}` tells what would change.",
        )
    if not result.is_right:
        raise VerificationError(f"{folder} does not compute what its original computes.")


@commands.command("bench", epilog=_example("longhand bench generated/attention_cpu --turns 11"))
@_FOLDER
@_FACTORY
@click.option(
    "--turns", type=click.IntRange(min=1), default=7, show_default=True, help="Interleaved turns of each."
)
@click.option("--kernels", "only_kernels", is_flag=True, help="Not the whole model.")
@click.option("--json", "is_json", is_flag=True, help="As JSON, for `longhand diff --markdown --bench`.")
def bench_command(folder: Path, factory: str | None, turns: int, only_kernels: bool, is_json: bool) -> None:
    """Time a unit against eager and torch.compile, and each of its kernels.

    A kernel's time stands beside that of the kernel as longhand wrote it,
    where somebody edited it, and its bandwidth beside that of a plain copy.
    """
    with screen.working(f"timing {folder}"):
        kernels = time_kernels(folder, n_turns=turns)
        times = {} if only_kernels else bench(folder, factory, n_turns=turns)
    if is_json:
        click.echo(screen.times_as_json(times, kernels))
        return
    if times:
        screen.show_times(times)
        click.echo()
    screen.show_kernel_times(kernels)


@commands.command("explain", epilog=_example("longhand explain examples.gpt:small"))
@click.argument("factory", metavar="MODULE:FACTORY")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=DTYPE[SIZES]", help='Like "x=float32[4,1024]".'
)
@click.option("--frontend", default="bytecode", show_default=True, help="What captures: bytecode, dynamo.")
def explain_command(factory: str, inputs: tuple[str, ...], frontend: str) -> None:
    """Tell which graphs and kernels a call becomes, its guards, where it breaks and why."""
    with screen.working(f"capturing {factory}"), torch.no_grad():
        call = resolve(factory, inputs)
        explanation = explain(call.model, frontend=frontend)(*call.args, **call.kwargs)
    click.echo(str(explanation))


@commands.command("view", epilog=_example("longhand view generated/attention_cpu"))
@_FOLDER
@click.argument("kernel", required=False)
def view_command(folder: Path, kernel: str | None) -> None:
    """Show a unit's files and one of its kernels (by default the first)."""
    read_lock(folder)
    screen.show_unit(folder, kernel)
