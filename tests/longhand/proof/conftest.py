"""Here units are run before they are kept, as they are for users."""

import pytest


@pytest.fixture(autouse=True)
def unit_runs() -> None:
    """Leaves ``generate`` as it is."""
