"""A unit's plans with their names: what emit/ knows of schedule/ besides the plan itself.

Every word that the files use is chosen before any of them is printed (`schedule.names.unit.name_plans`).
"""

from longhand.schedule.functions.alike_calls import has_modules_alike
from longhand.schedule.functions.alike_fields import with_fields_dropped_alike
from longhand.schedule.functions.alike_numbers import Number
from longhand.schedule.functions.alike_releases import own_steps
from longhand.schedule.functions.call_loops import CallLoop, CallOfMany, CallsOfFunction, find_call_loops
from longhand.schedule.functions.call_records import CallRecord, SharedCall, fields_reached
from longhand.schedule.functions.derivative_memory import MemoryOfSteps
from longhand.schedule.functions.derivatives import find_derivatives
from longhand.schedule.functions.inner_names import (
    names_inside,
    remark_on,
    word_of_field,
    words_for_parts,
    words_of_part,
)
from longhand.schedule.functions.lists_for_calls import ListForCalls, lists_for_calls
from longhand.schedule.functions.long_functions import LongFunction, ModuleDerivative
from longhand.schedule.functions.one_function import OneFunction
from longhand.schedule.functions.part_records import as_own, fields_of_part
from longhand.schedule.functions.repeated_launches import (
    Form,
    LaunchWords,
    RepeatedLaunches,
    remark_on_launch,
)
from longhand.schedule.functions.sharing import FunctionSharing
from longhand.schedule.functions.sites import (
    BACKWARD_FORM,
    FORWARD_FORM,
    FunctionBody,
    FunctionCandidate,
    FunctionForm,
    FunctionSites,
)
from longhand.schedule.functions.sizes.told_parts import (
    MOST_TRIALS,
    NO_SIZES,
    PartInSymbols,
    PartSizes,
    sizes_of_parts,
)
from longhand.schedule.functions.sizes.told_sizes import ToldBlocks, ToldSize
from longhand.schedule.layers.following import PREVIOUS
from longhand.schedule.layers.listed_inputs import ListedInput
from longhand.schedule.layers.loops import does_the_same
from longhand.schedule.layers.model_steps import (
    Choice,
    FirstCall,
    LayerCall,
    Loop,
    ModelStep,
    layers_called,
    loops_of,
    plain_steps,
    records_apart,
    steps_of,
)
from longhand.schedule.layers.read_weights import paths_of_weights, unread_weights, weights_inside
from longhand.schedule.layers.returned_gradients import (
    GradientGroup,
    GradientsInTurn,
    GradientsOfLayers,
    GradientsOfModule,
    OneGradient,
    ReturnedGradients,
    parameter_order,
)
from longhand.schedule.layers.saved_layers import SAVED, SavedLayers
from longhand.schedule.layers.stage_classes import StageLayers, are_many, class_of_stages, stages_alike
from longhand.schedule.layers.turns import TurnCall, find_rounds
from longhand.schedule.layers.written_functions import inherited, is_same
from longhand.schedule.library_fallback import filled_with
from longhand.schedule.memory.overwritten import overwritten
from longhand.schedule.modules.done_parts import DonePart, DoneSteps
from longhand.schedule.modules.headings import Home, heading_of, is_evident, is_lone_sum, is_product
from longhand.schedule.modules.held import (
    Branch,
    ByLayer,
    HeldModules,
    HeldTensor,
    ModuleSignature,
    ValueOf,
    WeightFunction,
)
from longhand.schedule.modules.settings import constant_name, sizes_of_file
from longhand.schedule.modules.sizes_alike import held_sizes, module_signature
from longhand.schedule.modules.titles import CalledModule, title_of, told_apart
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.call_frames import frame_of_backward, is_nearly_whole_backward, own_origins
from longhand.schedule.names.dimensions.compound_names import PaddedWord, ProductWord, Words, apart
from longhand.schedule.names.dimensions.dimension_names import DimNamer, symbol_names
from longhand.schedule.names.dimensions.dimension_propagation import grouped
from longhand.schedule.names.dimensions.parts import N_PARTS
from longhand.schedule.names.dimensions.reshaped_words import reshaped
from longhand.schedule.names.dimensions.walked_parts import grouped_before_last
from longhand.schedule.names.kernel_purposes import KernelPurpose, fills_padding, purpose_of
from longhand.schedule.names.meanings.axis_orders import axes_said, dims_read, order_read, reads_moved
from longhand.schedule.names.meanings.body_values import places_of
from longhand.schedule.names.meanings.halves import rotated_half
from longhand.schedule.names.meanings.kernel_formulas import derivative_of_norm
from longhand.schedule.names.meanings.settings import numbers_of
from longhand.schedule.names.meanings.unnamed import words_where_unnamed
from longhand.schedule.names.module_names import class_of_place, names_of_places, ordinal_classes
from longhand.schedule.names.naming import launches
from longhand.schedule.names.number_names import least_of
from longhand.schedule.names.operation_names import (
    SILENT,
    aten_name,
    derivative_word,
    op_word,
    provenance_of,
)
from longhand.schedule.names.parameter_names import children, parameters_in_order
from longhand.schedule.names.people_names import own_or_class
from longhand.schedule.names.reached import Reached, entry_of, is_plain_variable, list_holding
from longhand.schedule.names.schedule_names import in_plain_loops, walk_of, why_so
from longhand.schedule.names.shared.statements import (
    Statement,
    made_before,
    partly_again,
    stated_by,
    statements_of_some,
)
from longhand.schedule.names.unit_names import (
    KernelNames,
    LayerNames,
    Ledger,
    NamedPlan,
    NamedUnit,
    Quote,
    UnitNames,
    as_printed,
    kernels_of,
    pointer_word,
)
from longhand.schedule.names.value_rules import counts_from_the_end, is_of_places
from longhand.schedule.names.view_names import NamedView, named_views, view_key
from longhand.schedule.names.weight_names import keys_of_gradients
from longhand.schedule.numerics.plain_loops import plan_domains
from longhand.schedule.unread import kept_alone, unread_buffers
from longhand.schedule.verification.held_words import prove_words_hold
from longhand.schedule.view_detours import (
    EXPANSIONS,
    RESHAPES,
    SeenShape,
    after_call,
    straightened,
    view_name,
    without_detours,
    without_minus_one,
)

__all__ = [
    "BACKWARD_FORM",
    "EXPANSIONS",
    "FORWARD_FORM",
    "MOST_TRIALS",
    "NO_SIZES",
    "N_PARTS",
    "PREVIOUS",
    "RESHAPES",
    "SAVED",
    "SILENT",
    "Branch",
    "BufferNamer",
    "ByLayer",
    "CallLoop",
    "CallOfMany",
    "CallRecord",
    "CalledModule",
    "CallsOfFunction",
    "Choice",
    "DimNamer",
    "DonePart",
    "DoneSteps",
    "FirstCall",
    "Form",
    "FunctionBody",
    "FunctionCandidate",
    "FunctionForm",
    "FunctionSharing",
    "FunctionSites",
    "GradientGroup",
    "GradientsInTurn",
    "GradientsOfLayers",
    "GradientsOfModule",
    "HeldModules",
    "HeldTensor",
    "Home",
    "KernelNames",
    "KernelPurpose",
    "LaunchWords",
    "LayerCall",
    "LayerNames",
    "Ledger",
    "ListForCalls",
    "ListedInput",
    "LongFunction",
    "Loop",
    "MemoryOfSteps",
    "ModelStep",
    "ModuleDerivative",
    "ModuleSignature",
    "NamedPlan",
    "NamedUnit",
    "NamedView",
    "Number",
    "OneFunction",
    "OneGradient",
    "PaddedWord",
    "PartInSymbols",
    "PartSizes",
    "ProductWord",
    "Quote",
    "Reached",
    "RepeatedLaunches",
    "ReturnedGradients",
    "SavedLayers",
    "SeenShape",
    "SharedCall",
    "StageLayers",
    "Statement",
    "ToldBlocks",
    "ToldSize",
    "TurnCall",
    "UnitNames",
    "ValueOf",
    "WeightFunction",
    "Words",
    "after_call",
    "apart",
    "are_many",
    "as_own",
    "as_printed",
    "aten_name",
    "axes_said",
    "children",
    "class_of_place",
    "class_of_stages",
    "constant_name",
    "counts_from_the_end",
    "derivative_of_norm",
    "derivative_word",
    "dims_read",
    "does_the_same",
    "entry_of",
    "fields_of_part",
    "fields_reached",
    "filled_with",
    "fills_padding",
    "find_call_loops",
    "find_derivatives",
    "find_rounds",
    "frame_of_backward",
    "grouped",
    "grouped_before_last",
    "has_modules_alike",
    "heading_of",
    "held_sizes",
    "in_plain_loops",
    "inherited",
    "is_evident",
    "is_lone_sum",
    "is_nearly_whole_backward",
    "is_of_places",
    "is_plain_variable",
    "is_product",
    "is_same",
    "kept_alone",
    "kernels_of",
    "keys_of_gradients",
    "launches",
    "layers_called",
    "least_of",
    "list_holding",
    "lists_for_calls",
    "loops_of",
    "made_before",
    "module_signature",
    "named_views",
    "names_inside",
    "names_of_places",
    "numbers_of",
    "op_word",
    "order_read",
    "ordinal_classes",
    "overwritten",
    "own_or_class",
    "own_origins",
    "own_steps",
    "parameter_order",
    "parameters_in_order",
    "partly_again",
    "paths_of_weights",
    "places_of",
    "plain_steps",
    "plan_domains",
    "pointer_word",
    "prove_words_hold",
    "provenance_of",
    "purpose_of",
    "reads_moved",
    "records_apart",
    "remark_on",
    "remark_on_launch",
    "reshaped",
    "rotated_half",
    "sizes_of_file",
    "sizes_of_parts",
    "stages_alike",
    "stated_by",
    "statements_of_some",
    "steps_of",
    "straightened",
    "symbol_names",
    "title_of",
    "told_apart",
    "unread_buffers",
    "unread_weights",
    "view_key",
    "view_name",
    "walk_of",
    "weights_inside",
    "why_so",
    "with_fields_dropped_alike",
    "without_detours",
    "without_minus_one",
    "word_of_field",
    "words_for_parts",
    "words_of_part",
    "words_where_unnamed",
]
