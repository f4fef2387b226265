"""What lowering does, in order: a list of named passes, each from a draft of the program to the next.

A pass decides one thing and changes nothing that it is given. LONGHAND_DUMP shows what each one made, and
`lower.verifier` checks it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from longhand.capture.graph import AliasKind
from longhand.lower.draft import LoweringDraft, fork
from longhand.lower.fixpoint_check import is_fixpoint
from longhand.lower.host_values import host_values
from longhand.lower.layers import keep_first_layers
from longhand.lower.layouts import convolution_weights, wants_channels_last
from longhand.lower.lowerings.alignment import align_products
from longhand.lower.lowerings.peeling import peel_biases
from longhand.lower.nodes import lower_nodes, replay_view
from longhand.lower.pruning import prune
from longhand.lower.results import Unmapped, result_of, store_mutations
from longhand.lower.writes.stacks import split_stacks


@dataclasses.dataclass(frozen=True)
class LoweringPass:
    """One decision about a whole program.

    Attributes:
        name: Unique in the list; of the dumped file, and in errors.
        doc: What it does, in a line.
        apply: From what the pass before it made; pure.
    """

    name: str
    doc: str
    apply: Callable[[LoweringDraft], LoweringDraft]


def _align_products(draft: LoweringDraft) -> LoweringDraft:
    return draft.with_graph(align_products(draft.graph, draft.options))


def _peel_biases(draft: LoweringDraft) -> LoweringDraft:
    return draft.with_graph(peel_biases(draft.graph, draft.options))


def _split_stacks(draft: LoweringDraft) -> LoweringDraft:
    return draft.with_graph(split_stacks(draft.graph))


def _keep_first_layers(draft: LoweringDraft) -> LoweringDraft:
    if draft.every_layer or draft.memory:
        return draft
    short, layers = keep_first_layers(draft.graph)
    return dataclasses.replace(draft, short=short, layers=layers)


def _choose_layouts(draft: LoweringDraft) -> LoweringDraft:
    keeps = wants_channels_last(draft.graph, draft.options)
    if draft.options.train:  # the other pass reads the same weights
        return dataclasses.replace(draft, keeps_channels_last=keeps, weights=draft.filters)
    weights = convolution_weights(draft.graph) if keeps else frozenset[str]()
    return dataclasses.replace(draft, keeps_channels_last=keeps, weights=weights)


def _find_host_values(draft: LoweringDraft) -> LoweringDraft:
    return dataclasses.replace(draft, host=host_values(draft.graph, draft.options))


def _lower_nodes(draft: LoweringDraft) -> LoweringDraft:
    return draft.with_context(lower_nodes(draft))


def _check_fixpoint(draft: LoweringDraft) -> LoweringDraft:
    if all(is_fixpoint(draft.lowered, chain) for chain in draft.layers):
        return draft
    return _lower_nodes(dataclasses.replace(draft, short=draft.graph, layers=()))


def _return_results(draft: LoweringDraft) -> LoweringDraft:
    context = fork(draft.lowered)
    unmapped = Unmapped.SAID if draft.options.train else Unmapped.CALLED
    if draft.options.mode.records_cuda_graphs:
        unmapped = Unmapped.REFUSED  # a recording gives back its own memory
    outputs = draft.short.outputs
    # What has memory of its own comes first: it may be laid out anew, and then what is a view of it.
    order = sorted(range(len(outputs)), key=lambda place: outputs[place].alias is AliasKind.OUTPUT)
    n_others = len(outputs) - draft.short.n_saved
    nodes = {node.name: node for node in context.graph.graph.nodes}
    made = {
        place: result_of(
            context, outputs[place], nodes, replay_view, unmapped=unmapped, is_saved=place >= n_others
        )
        for place in order
    }
    results = tuple(made[place] for place in range(len(outputs)))
    return dataclasses.replace(draft.with_context(context), results=results)


def _store_mutations(draft: LoweringDraft) -> LoweringDraft:
    context = fork(draft.lowered)
    store_mutations(context)
    return draft.with_context(context)


def _prune(draft: LoweringDraft) -> LoweringDraft:
    buffers, steps = prune(draft.buffers, list(draft.steps), draft.results)
    return dataclasses.replace(draft, buffers=buffers, steps=steps)


PASSES: tuple[LoweringPass, ...] = (
    LoweringPass(
        "align_products", "Products of tensors with odd rows are widened, where that pays.", _align_products
    ),
    LoweringPass(
        "peel_biases", "Biases of convolutions go to the kernels that read the results.", _peel_biases
    ),
    LoweringPass("split_stacks", "Arguments that stack what layers have are a part for each.", _split_stacks),
    LoweringPass("keep_first_layers", "Of many equal layers only the first few stay.", _keep_first_layers),
    LoweringPass("choose_layouts", "Whether images lie with their channels last.", _choose_layouts),
    LoweringPass("find_host_values", "What the host computes for a device's kernels.", _find_host_values),
    LoweringPass("lower_nodes", "Each node through its lowering, what has none through ATen.", _lower_nodes),
    LoweringPass(
        "check_fixpoint", "Every layer, where the first few do not tell what the others do.", _check_fixpoint
    ),
    LoweringPass("return_results", "What the call returns, as views of buffers.", _return_results),
    LoweringPass("store_mutations", "New values of inputs are written back, last of all.", _store_mutations),
    LoweringPass("prune", "What neither results nor mutations need goes.", _prune),
)
