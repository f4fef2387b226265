"""Where a captured graph's values come from: statement and local, and of a buffer that lower added what it is."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from torch import fx

from longhand.capture.graph import CapturedGraph, Provenance
from longhand.emit.names.operation_names import aten_name, name_of_ops, op_word
from longhand.emit.names.renamed_locals import RenamedLocals
from longhand.lower.ir import Buffer, Derivation, Derived


class ValueOrigins:
    """What is known of where values come from. No words are chosen here.

    Args:
        graph: Whose values.
        buffers: What it was lowered to, by name.
        renamed: What the user's locals were called when the unit was first generated.

    Attributes:
        nodes: The graph's nodes by name.
    """

    def __init__(self, graph: CapturedGraph, buffers: Mapping[str, Buffer], renamed: RenamedLocals) -> None:
        self.nodes: Mapping[str, fx.Node] = {node.name: node for node in graph.graph.nodes}
        self._buffers = buffers
        self._renamed = renamed
        self._locals_of_views = self._local_of_views(graph)
        self._statements: dict[tuple[str, str], str] = {}

    def provenance(self, node: str) -> Provenance:
        """Where a node came from, its local as it was first called; an empty one if that is not known."""
        found = self.nodes.get(node)
        return self.of(found) if found is not None else Provenance()

    def of(self, node: fx.Node) -> Provenance:
        """The same of a node of the graph."""
        origin: Provenance = node.meta.get("provenance") or Provenance()
        if not origin.local or origin.qualname not in self._renamed.locals:
            return origin
        return dataclasses.replace(origin, local=self._renamed.local(origin.qualname, origin.local))

    def local(self, node: fx.Node) -> str | None:
        """The user's name for a value, or for the one view that is taken of it (``q = linear(x).view(...)``)."""
        return self.of(node).local or self._locals_of_views.get(node.name)

    def _local_of_views(self, graph: CapturedGraph) -> dict[str, str]:
        found: dict[str, str] = {}
        for node in reversed(list(graph.graph.nodes)):
            local = self.of(node).local or found.get(node.name)
            source = node.args[0] if node.args else None
            if not local or node.op != "call_function" or not op_word(node).silent:
                continue
            if not isinstance(source, fx.Node) or self.of(source).local:
                continue
            if len(source.users) == 1 and source.op == "call_function":
                found[source.name] = local
        return found

    # --- buffers that lower added ---

    def derived(self, buffer: str) -> Derived | None:
        """What a buffer is that lower added; None for one that a node is called after."""
        found = self._buffers.get(buffer)
        return found.derived if found is not None else None

    def node_of(self, buffer: str) -> str:
        """The node that computes what is in a buffer: of the losses of rows the loss."""
        made = self.derived(buffer)
        return made.of if made is not None and made.how is Derivation.LOSSES else buffer

    def source_of_layout(self, buffer: str) -> str:
        """The buffer whose value a buffer holds in another layout; itself if it is none."""
        made = self.derived(buffer)
        return made.of if made is not None and made.how.is_layout else buffer

    # --- statements ---

    def name_of_statement(self, origin: Provenance) -> str:
        """What a whole statement computes."""
        key = origin.module, origin.statement
        if key not in self._statements:
            self._statements[key] = name_of_ops(self._runs.get(key, []))
        return self._statements[key]

    @functools.cached_property
    def _runs(self) -> dict[tuple[str, str], list[fx.Node]]:
        """The nodes of each statement in each module."""
        found: dict[tuple[str, str], list[fx.Node]] = {}
        for node in self.nodes.values():
            if node.op == "call_function":
                origin = self.of(node)
                found.setdefault((origin.module, origin.statement), []).append(node)
        return found

    def ends_statement(self, node: fx.Node) -> bool:
        """Whether no other node of the same statement, in the same module call, uses the value."""
        statement = self.of(node).statement
        return not any(
            user.op == "call_function" and self.of(user).statement == statement and not op_word(user).silent
            for user in node.users
        )

    def n_same(self, node: fx.Node) -> int:
        """How many values the same statement of the same module makes with the same operation: its calls."""
        origin = self.of(node)
        run = self._runs.get((origin.module, origin.statement), ())
        return sum(_is_same_op(other, node) and self.ends_statement(other) for other in run)


def _is_same_op(one: fx.Node, other: fx.Node) -> bool:
    """Whether two nodes do the same, both of the forward pass or both of one op's derivative."""
    derived = [node.meta.get("provenance", Provenance()).differentiates for node in (one, other)]
    return aten_name(one) == aten_name(other) and derived[0] == derived[1]
