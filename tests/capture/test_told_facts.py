"""What a README says that the model must keep is a value: of a string it would say the type, of internals nothing."""

from longhand.capture.facts import facts_of


def test_strings_and_what_a_class_keeps_for_itself_go_untold() -> None:
    conv = "L['self']._modules['conv']"
    guards = [
        f"{conv}.padding_mode == 'zeros'",
        f"{conv}.groups == 4",
        f"{conv}._multirecipe[4].first_reduced_axis == 2",
        "L['self']._axes_lengths[0][1] == 1",
    ]
    assert facts_of(guards) == ("`conv`: groups = 4",)
