"""The other half of the controller's seeds: a file of its own, so that another process takes it."""

from __future__ import annotations

import pytest

from tests.simulation.test_controller_simulation import play_half


@pytest.mark.slow
def test_no_odd_seed_breaks_a_promise() -> None:
    play_half(1)
    assert play_half.__doc__
