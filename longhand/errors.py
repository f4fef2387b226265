"""Every error that longhand raises on purpose: what happened, where in the user's code, what to do next."""

from __future__ import annotations


class LonghandError(Exception):
    """The base of all of longhand's errors.

    Args:
        what: What happened, in one sentence.
        where: The user's ``file:line``, if one is to blame.
        hint: What to do next.
    """

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        parts = [what if where is None else f"{where}: {what}", hint or ""]
        super().__init__(" ".join(part for part in parts if part))


class OptionError(LonghandError):
    """An option, target or argument that longhand does not know, or that contradicts another."""


class ReplacementError(OptionError):
    """A folder holds a unit for another device, with other training or other variable sizes than are asked for."""


class CaptureError(LonghandError):
    """The model could not be captured as one sound graph."""


class GraphBreakError(CaptureError):
    """The code is not one graph.

    Args:
        called: What was to be captured.
        breaks: (reason, the user's ``file:line``, hint) of each break, in the order in which a call meets them.
        hint: What to do next.
    """

    def __init__(
        self, called: str, breaks: tuple[tuple[str, str, str | None], ...], hint: str | None = None
    ) -> None:
        self.breaks = breaks
        n_breaks = f"{len(breaks)} graph break{'s' * (len(breaks) != 1)}"
        lines = [f"{called} is not one graph: {n_breaks}."]
        for reason, where, advice in breaks:
            line = f"{where}: {reason}." if where else f"{reason}."
            lines.append(f"- {line}" + (f" {advice}" if advice else ""))
        self.called = called
        super().__init__("\n".join([*lines, *([hint] if hint else [])]))
        self.hint = hint

    def advised(self, hint: str) -> GraphBreakError:
        """The same with what to do next."""
        return GraphBreakError(self.called, self.breaks, hint)


class LoweringError(LonghandError):
    """A captured graph breaks a rule of the loop program. Always a bug in longhand, never in the model."""


class ScheduleError(LonghandError):
    """A loop program could not be planned. Always a bug in longhand, never in the model."""


class BrokenPlanError(ScheduleError):
    """A pass made a plan that breaks a rule which every plan keeps. Always a bug in longhand, never in the model.

    Args:
        pass_name: The pass after which the plan was checked.
        step: The step at fault, in words.
        rule: The rule that it breaks.
        what: How it breaks it.
    """

    def __init__(self, pass_name: str, step: str, rule: str, what: str) -> None:
        self.pass_name = pass_name
        self.step = step
        self.rule = rule
        self.detail = what
        hint = "This is a bug in longhand: LONGHAND_DUMP=dir shows what each pass made."
        super().__init__(f"After {pass_name}: {step} breaks a rule of plans ({rule}): {what}.", hint=hint)


class ProofError(LonghandError):
    """What longhand made of a model is faulty, which it saw before it wrote anything. Always a bug in longhand."""


class FactoryError(LonghandError):
    """``MODULE:FACTORY`` could not be imported, raised, or returned something else than (model, args[, kwargs])."""


class UnitError(LonghandError):
    """A generated unit on disk is missing, incomplete or does not fit what it is asked to do."""


class NotRunHereError(UnitError):
    """A unit cannot run on this machine: it is for a GPU, or too large for Triton's interpreter."""


class OutputError(LonghandError):
    """The unit could not be written. What was on disk before is untouched."""


class EditError(LonghandError):
    """An edit breaks what the unit's other files rely on: a function renamed, a signature changed, a syntax error."""


class ToolError(LonghandError):
    """A tool that longhand runs (g++, clang-format, black) is missing or failed."""


class VerificationError(LonghandError):
    """A generated kernel or unit does not compute what its reference computes."""


class EagerWarning(UserWarning):
    """What was to run in generated kernels runs in eager, and so slower; LONGHAND_STRICT=1 makes it an error."""


class KernelWarning(UserWarning):
    """One kernel of a unit is PyTorch calls, since it does not compile or is wrong. The unit is right."""


class ToldCompiledWarning(UserWarning):
    """A model computes something else where torch.compiler.is_compiling() is True; its unit does what eager does."""


class KeptTensorWarning(UserWarning):
    """What calls before have left in a model is a constant of the unit, which weights that are loaded later leave."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} keeps tensors of earlier calls besides its state_dict, and no capture makes them anew: they are "
            "constants of the unit, as they are now. Generate again after other weights were loaded."
        )


class UntidyWarning(UserWarning):
    """Longhand wrote something that nothing needs: an unused name. Harmless, and a bug in longhand."""


class StaleUnitWarning(UserWarning):
    """A unit was loaded whose model may have changed since it was generated."""
