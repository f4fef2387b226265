"""Classes that one name is not enough for are told by the list that they are of, or by their turn."""

from longhand.emit.layers.class_names import free_name, record_name
from longhand.emit.layers.saved_records import Record
from longhand.schedule.names.module_names import class_of_place
from longhand.schedule.names.words import first_free, further_names


def test_layers_of_another_list_are_called_after_it() -> None:
    """It was InvertedResidualLayerLayer."""
    taken = {"InvertedResidual": "stage2", "InvertedResidualLayer": "stage3"}
    assert free_name("InvertedResidual", taken, "stage4", is_in_turn=False) == "Stage4InvertedResidual"


def test_records_of_another_list_are_called_after_it() -> None:
    """It was FocalNetBlockCallSaved, and FocalNetBlockCallCallSaved."""
    taken = {"BlockSaved"}
    assert record_name("Block", taken, "layers.1.blocks") == "Layer1BlockSaved"
    assert record_name("Block", taken) == "OtherBlockSaved"
    assert class_of_place("stage2.1") == "Stage2Layer1"


def test_a_record_says_of_which_modules_it_is() -> None:
    """It said stage2.2 to stage3.6, of which there are more."""
    modules = ("stage2.2", "stage3.1", "stage3.2", "stage3.6")
    assert Record("A", "", "", (), modules=modules).says.startswith(
        "What stage2[2], stage3[1], stage3[2] and stage3[6] hand to"
    )
    modules = ("stage2.2", "stage3.1", "stage3.2", "stage3.3")
    assert Record("A", "", "", (), modules=modules).says.startswith(
        "What stage2[2] and stage3[1] to stage3[3] hand"
    )


def test_a_second_one_is_followed_by_a_third() -> None:
    """It was second_second_x."""
    assert first_free(further_names("second_x"), {"second_x"}) == "third_x"
    assert first_free(further_names("second_x"), {"third_x"}) == "fourth_x"
