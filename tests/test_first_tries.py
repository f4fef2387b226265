"""What lost users who tried longhand first, and the tests that hold each of it: they are there, and say so by name."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HELD = {
    "what check prints renews a unit with device, training, sizes and frontend": (
        "longhand/test_renewal.py::test_what_check_prints_renews_the_unit_with_every_option",
        "longhand/test_renewal.py::test_a_unit_becomes_no_other_by_accident",
    ),
    "the documented check does not pass a wrong edit": (
        "longhand/test_varied_sizes.py::test_check_verify_is_one_answer_for_all_of_it",
        "longhand/test_varied_sizes.py::test_a_summary_that_finds_something_wrong_is_no_success",
        "longhand/test_ci.py::test_the_action_on_a_pull_request",
    ),
    "sizes: one of two equal sizes does not vary silently": (
        "capture/test_fixed_sizes.py::test_an_argument_of_the_same_size_fixes_it",
    ),
    "sizes: verify tries others than the example's": (
        "longhand/test_varied_sizes.py::test_a_size_put_by_hand_into_a_kernel_is_found_by_verify",
    ),
    "sizes: compile(out=) says that other shapes run in eager": (
        "longhand/test_strict.py::test_a_folder_of_ones_own_says_what_it_is_not_for",
    ),
    "deployment: no compiler on the server": (
        "longhand/test_deploy.py::test_a_wheel_runs_without_a_compiler_and_without_longhand",
        "longhand/test_deploy_cuda.py::test_a_wheel_of_it_is_installed_and_imported_without_a_compiler",
    ),
    "deployment: a wheel of one's own holds .cpp, .pt and binaries": (
        "longhand/test_deploy.py::test_the_recipe_for_package_data_in_the_docs_packs_all_that_a_unit_needs",
        "longhand/test_deploy_cuda.py::test_the_recipe_for_package_data_takes_binaries_along",
    ),
    "deployment: a loaded unit is unpickled elsewhere": (
        "longhand/test_deploy.py::test_a_loaded_unit_is_pickled_and_found_again_elsewhere",
    ),
    "deployment: a unit inside torch.compile and torch.export": (
        "longhand/test_traced_units.py::test_compiled_as_one_graph",
        "longhand/test_traced_units.py::test_exported_and_loaded_elsewhere",
    ),
    "strict raises for an undefined name and a failed stage": (
        "longhand/test_strict.py::test_an_undefined_name_is_the_codes_own_error",
        "longhand/test_strict.py::test_a_stage_that_fails_is_an_error",
    ),
    "command line: help, TAB, version, python -m, progress that counts": (
        "longhand/test_manners.py::test_what_needs_no_model_imports_no_torch_and_is_quick",
        "longhand/test_manners.py::test_tab_completes_commands_and_options_without_torch",
        "longhand/test_manners.py::test_python_m_longhand_is_the_command_line",
        "longhand/test_manners.py::test_verbose_counts_what_is_done_where_there_is_no_terminal",
    ),
    "tune and bench: the budget, the noise, a kernel that is called copy": (
        "longhand/test_tune.py::test_the_budget_is_all_the_time_there_is",
        "longhand/test_faster.py::test_the_reason_for_keeping_fits_its_numbers",
        "longhand/test_kernel_times.py::test_a_kernel_is_compared_with_a_copy_of_its_size_whatever_its_name",
    ),
    "merge: what a kept file says of the model follows it; an edit goes to the new name": (
        "emit/test_merge_conflicts.py::test_the_prose_of_a_file_that_was_kept_follows_the_model",
        "emit/test_merge_renames.py::test_an_edit_moves_to_the_kernels_new_name_and_back",
    ),
}


# Models that the gallery does not hold, as they were tried first: what each of them met.
OF_MODELS = {
    "decoders of transformers: a kernel of the mask does not compile; the model runs in eager": (
        "models/test_table.py::test_kernels_compile",
        "models/test_cuda_units.py::test_units",
    ),
    "ViT: the graph of a training step raises": (
        "models/test_cuda_units.py::test_units_that_train",
        "gpu/test_no_eager.py::test_a_training_step",
    ),
    "swin, ShuffleNet: a name is read after `del`; windows in bfloat16 are wrong": (
        "longhand/proof/test_bindings.py::test_it_finds",
        "models/test_layered.py::test_inference",
        "models/test_layered.py::test_training",
    ),
    "efficientnet: torch._check, iterated modules, and units' own frames make graphs": (
        "capture/test_torch_private.py::test_questions_about_torch_function_and_checks",
        "capture/bytecode/test_asserted.py::test_behaviour",
        "capture/bytecode/test_iterators.py::loops_that_break_once",
        "longhand/test_giving_up.py::test_units_are_not_captured",
    ),
    "GRU cell: a base name takes a parameter's": (
        "longhand/proof/test_bindings.py::test_a_kernel_gives_no_name_twice",
        "models/test_cuda_units.py::test_units",
    ),
    "index_add: trained it raises, and verify dies": (
        "models/test_cuda_units.py::test_units_that_train",
        "models/test_layered.py::test_training",
    ),
    "mamba: a kernel crashes the interpreter": ("models/test_cuda_units.py::test_units",),
    "vit, dinov2, clip: the reference of a `cat` does not expand": (
        "models/test_cuda_units.py::test_units",
        "emit/test_joins_read_elsewhere.py::test_the_reference_is_right",
    ),
    "noise schedule: `.to` of a constexpr": ("models/test_cuda_units.py::test_units",),
    "DenseNet's transition in training is slow": (
        "lower/test_batch_statistics.py::test_norm_and_what_follows_are_one_kernel_on_cuda_and_atens_on_the_cpu",
        "models/test_cuda_units.py::test_units_that_train",
    ),
    "layers whose buffers differ share one layer's": (
        "models/test_layered.py::test_inference",
        "longhand/proof/test_run_once.py::test_layers_are_told_apart",
    ),
    "fused qkv with rotary positions, and checkpoints, in training": (
        "models/test_layered.py::test_training",
    ),
    "sizes that vary, three equal layers: an undefined name": (
        "models/test_layered.py::test_symbolic_sizes",
        "longhand/proof/test_bindings.py::test_it_finds",
    ),
    "dropout under autocast": (
        "autograd/test_autocast.py::test_dropout_under_autocast_is_in_kernels_and_draws_as_eager",
    ),
    "spectral_norm: a weight is lost": ("models/test_layered.py::test_inference",),
    "a failed generate leaves vmap's level open": (
        "longhand/test_transforms.py::test_what_fails_leaves_no_level_open",
    ),
    "FSDP2, each block sharded and compiled": (
        "autograd/test_distributed.py::test_blocks_that_are_fully_sharded",
        "gpu/test_fsdp.py::test_blocks",
    ),
    "a static cache through the backend; torch.func": (
        "models/test_static_cache.py::test_steps_run_in_kernels",
        "longhand/test_transforms.py::test_compiled",
    ),
    "after the limit of compilations each new shape is slow": (
        "longhand/test_giving_up.py::test_after_the_limit_nothing_below_is_compiled",
    ),
}


@pytest.mark.parametrize("row", [*HELD, *OF_MODELS])
def test_a_test_holds_it(row):
    for node in {**HELD, **OF_MODELS}[row]:
        path, _, name = node.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text())
        assert any(isinstance(one, ast.FunctionDef) and one.name == name for one in tree.body), node


def test_sizes_that_vary_are_in_the_readme_and_the_documentation():
    for page in ("README.md", "docs/sizes.md", "docs/units.md"):
        text = (ROOT / page).read_text()
        assert "--dynamic" in text and "mark_dynamic" in text, page
