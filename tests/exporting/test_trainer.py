"""Fine-tuning beside ``transformers.Trainer``, from the same weights with the same batches."""

import re

import pytest

from benchmarks.published import compare, ours, prepare, theirs
from tests.published_folders import save
from tests.runs.test_published import GPT, SEQ2SEQ


@pytest.mark.parametrize(
    ("double", "bound"), [pytest.param(False, 1e-5, marks=pytest.mark.nightly), (True, 1e-9)]
)
def test_the_losses_of_twenty_steps_are_those_of_transformers(double, bound, tmp_path):
    prepare(tmp_path, dim=32, layers=2, rows=400, tokens=256)
    found, wanted = (train(tmp_path, 20, double) for train in (ours, theirs))
    assert len(found) == 20
    assert found == pytest.approx(wanted, rel=0, abs=bound)


def test_what_is_imported_has_the_logits_and_ids_of_transformers(tmp_path):
    places = {"n_positions": 256, "max_position_embeddings": 256, "decoder_start_token_id": 2}
    for name, class_name, config, differ in (
        ("gpt2", "GPT2LMHeadModel", GPT, 0),
        ("marian", "MarianMTModel", SEQ2SEQ, 1),  # of which transformers reads </s> as the token
    ):
        known = {key: value for key, value in places.items() if key in config}
        save(name, class_name, {**config, **known}, tmp_path / name)
        row = compare(str(tmp_path / name), 40)
        shares = [float(share) for share in re.findall(r"\de-\d+", row)]
        assert len(shares) == 2
        assert max(shares) < 1e-5  # Marian's table of positions is rounded to fp32 there
        same, lines = re.search(r"text of (\d+) of (\d+) lines equal", row).groups()
        assert int(lines) - int(same) == differ
