"""Fine-tuning beside ``transformers.Trainer``, from the same weights with the same batches."""

import pytest

from benchmarks.published import ours, prepare, theirs


@pytest.mark.parametrize(
    ("double", "bound"), [pytest.param(False, 1e-5, marks=pytest.mark.nightly), (True, 1e-9)]
)
def test_the_losses_of_twenty_steps_are_those_of_transformers(double, bound, tmp_path):
    prepare(tmp_path, dim=32, layers=2, rows=400, tokens=256)
    found, wanted = (train(tmp_path, 20, double) for train in (ours, theirs))
    assert len(found) == 20
    assert found == pytest.approx(wanted, rel=0, abs=bound)
