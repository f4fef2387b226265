"""docs/story.md is what examples/story.py plays, and the story can be played."""

import pytest

from examples import story

PAGE = story.PAGE.read_text()


def test_the_page_shows_the_commands_of_the_script_in_order():
    shown = story.commands_of(PAGE)
    played = [step for step in story.STORY if isinstance(step, story.Command)]
    # What a version of longhand lacks is left out.
    expected = [step.text for step in played if not step.feature or step.text in shown]
    assert shown == expected
    for step in story.STORY:
        if not isinstance(step, story.Command):
            assert step.text.rstrip() in PAGE


def test_what_differs_from_run_to_run_is_not_shown(tmp_path):
    text = "capture 1.01 s, emit 1.47 s, run \n0.25 s\n"
    text += f"(of which) {tmp_path}/x: 9.10e-07  0.01  ok\nat: 0.1234567, expected 0.2"
    shown = story.normalized(text, tmp_path)
    assert "1.47" not in shown and "~/x: N.NNe-NN  N.NN  ok" in shown and "at: N.N, expected" in shown


@pytest.mark.slow
def test_the_story_is_played_and_its_page_is_current():
    """Six processes that import torch, a wheel of longhand, and two virtual environments."""
    assert story.play() == PAGE
