"""What was attacked and broken, row by row, and the tests that hold each: a row without a test is a promise.

A test is named by its file below tests/ and its function; a file alone stands for all of its tests. ``python -m
tests.attacks.odd`` (names, source lines, locks) and ``python -m tests.attacks.kills`` (kill -9) take larger numbers.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROWS: dict[str, tuple[str, ...]] = {
    "the example call passes one tensor twice": ("attacks/test_same_tensor.py",),
    "two branches each add a kernel of one name, and git merges both": ("attacks/test_kernel_identity.py",),
    "positions past 2**31, grids over 65535, positions that wrap": (
        "emit/test_triton_positions.py",
        "gpu/test_large_tensors.py",
        "emit/test_launch_checks.py::test_a_tensor_that_32_bits_do_not_count_is_refused",
    ),
    "threads that alternate torch.compile and longhand.compile": (
        "attacks/test_hook_and_dynamo.py::test_threads_that_alternate_with_dynamo",
        "attacks/test_hook_and_dynamo.py::test_contexts_that_interleave",
    ),
    "a torch.compiled function inside a longhand.compiled one, and around it": (
        "attacks/test_hook_and_dynamo.py::test_dynamo_inside",
        "attacks/test_hook_and_dynamo.py::test_dynamo_around",
    ),
    "torch.jit.trace of a compiled function": (
        "attacks/test_hook_and_dynamo.py::test_a_recording_of_jit_trace",
    ),
    "a dispatch mode around a compiled call, inference mode turned off below no_grad": (
        "attacks/test_modes.py",
    ),
    "greenlets and sub-interpreters": (
        "attacks/test_hook_and_dynamo.py::test_greenlets",
        "attacks/test_hook_and_dynamo.py::test_sub_interpreters",
    ),
    "a parameter's name or state_dict key with quotes and code": (
        "attacks/test_names.py::test_state_dict_keys",
    ),
    "only longhand.lock poisoned": ("attacks/test_locks.py::test_a_poisoned_ledger_is_not_written",),
    "odd names of parameters, modules, classes, locals, arguments and keys": (
        "attacks/test_names.py::test_every_word_as_each_kind",
        "attacks/test_names.py::test_locals_and_arguments",
        "attacks/test_names.py::test_one_argument",
        "attacks/test_names.py::test_keys_of_dicts",
        "attacks/test_names.py::test_classes",
        "attacks/test_names.py::test_names_are_told_apart",
    ),
    "quotes and backslashes in a quoted source line": (
        "attacks/test_quoted_source.py::test_odd_lines",
        "attacks/test_quoted_source.py::test_cuda_text",
        "attacks/test_quoted_source.py::test_each_language_keeps_its_bounds",
    ),
    "a cache below a folder that another user owns": (
        "attacks/test_caches.py::test_a_cache_below_a_folder_of_another_user",
        "attacks/test_caches.py::test_whose_folders_are_trusted",
        "attacks/test_caches.py::test_a_build_without_its_digest_or_of_another_user_is_built_again",
    ),
    "a guard on a string, a lambda's whole line": (
        "attacks/test_quoted_source.py::test_no_secret_in_any_file",
        "attacks/test_quoted_source.py::test_facts_tell_no_string",
        "attacks/test_quoted_source.py::test_only_the_expression_of_a_lambda_is_quoted",
        "attacks/test_quoted_source.py::test_strings_are_not_quoted",
    ),
    "diff of a unit whose kernel is a link to another file": (
        "attacks/test_environment.py::test_what_a_link_leads_to_is_not_shown",
    ),
    "an untrusted repository": (
        "attacks/test_environment.py::test_an_untrusted_repository_runs_nothing",
        "attacks/test_environment.py::test_a_terminal_does_not_obey_a_file",
    ),
    "eight threads load one unit; an interrupt in load": ("attacks/test_load_threads.py",),
    "a cached build cut in half or of random bytes; a damaged cached unit": (
        "attacks/test_caches.py::test_a_damaged_build_is_built_again",
        "attacks/test_caches.py::test_a_damaged_unit_is_made_again",
    ),
    "two processes, or containers, on one folder": (
        "attacks/test_caches.py::test_a_scratch_folder_of_a_living_run_stays",
        "attacks/test_one_step.py::test_another_command_between_any_two_steps",
        "attacks/test_one_step.py::test_two_first_writes_at_once",
    ),
    "kill -9 at any moment": (
        "attacks/test_one_step.py::test_a_kill_between_any_two_steps",
        "emit/test_merge_random.py::test_killed_at_any_moment_the_old_unit_or_the_new_one_is_there",
        "longhand/test_kill.py::test_a_few_kills_leave_the_old_unit_or_the_new_one",
    ),
    "a full or read-only disk": (
        "emit/test_merge_odd_files.py::test_a_full_or_read_only_disk_leaves_the_unit",
    ),
    "a hung compiler, an endless edited kernel, a held lock": (
        "attacks/test_caches.py::test_a_hung_compiler_is_ended",
        "attacks/test_caches.py::test_a_kernel_without_end_is_told",
        "attacks/test_caches.py::test_a_lock_that_somebody_holds_is_told",
        "attacks/test_one_step.py::test_a_unit_that_somebody_holds_is_told",
        "attacks/test_one_step.py::test_a_file_system_without_locks",
    ),
    "locks of odd types, 20 GB, a pipe, deep JSON, a later format": (
        "attacks/test_locks.py::test_odd_locks",
        "attacks/test_locks.py::test_what_is_no_plain_file",
        "attacks/test_locks.py::test_a_later_format_is_told",
        "attacks/test_locks.py::test_many_conflict_markers_are_read_once",
        "attacks/test_locks.py::test_paths_stay_inside",
    ),
    "an ASCII locale, a folder called [red]x": (
        "attacks/test_environment.py::test_commands_in_a_folder_that_looks_like_markup",
    ),
    'CXX="ccache g++", a compiler\'s words that are no UTF-8': (
        "attacks/test_caches.py::test_several_words_for_a_compiler",
        "attacks/test_caches.py::test_a_compiler_s_words_in_another_encoding",
    ),
    "a kernel called by hand with sizes that its tensors do not have": (
        "emit/test_shape_comments.py::test_anything_else_is_refused_with_what_came",
        "emit/test_shape_comments.py::test_a_triton_kernel_refuses_what_its_comments_do_not_say",
        "emit/test_launch_checks.py::test_tensors_on_two_devices_are_refused",
    ),
    "sanitizers over the hook, the C++ kernels and the CUDA kernels": ("gpu/test_sanitize.py",),
}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_has_its_tests(row: str) -> None:
    for named in ROWS[row]:
        path, _, function = named.partition("::")
        found = re.findall(r"^def (test_\w+)\(", (TESTS / path).read_text(encoding="utf-8"), re.MULTILINE)
        assert function in found if function else found, named


def test_every_attack_is_in_a_row() -> None:
    """A file of tests in this folder is listed, whole or by each of its tests that attacks something."""
    listed = {named.partition("::")[0] for tests in ROWS.values() for named in tests}
    own = {f"attacks/{path.name}" for path in Path(__file__).parent.glob("test_*.py")}
    about_attacks = {"attacks/test_rows.py", "attacks/test_odd.py", "attacks/test_watching.py"}
    assert own - listed == about_attacks
