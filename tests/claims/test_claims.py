"""What benchmarks/claims.md states is what its formulas give, and its scripts run."""

import doctest
from types import SimpleNamespace

import pytest
import torch

from benchmarks.claims import embeddings, heads, own_token, quadratic, shared, sinusoids
from tfzoo import Transformer
from tfzoo.data.batches import ParallelBatch

TINY = """
recipe: translation/numbers
budget: {steps: 2}
overrides:
  {explain: true, model.dim: 16, model.layers: 1, data.dataset.train: 200, data.dataset.val: 4,
   data.dataset.test: 4, data.dataset.long: 4, search.max_length: 0.1}
"""


def rows(name):
    """The cells of a table of the page, without its head."""
    part = shared.PAGE.read_text("utf-8").partition(f"<!-- {name} -->\n")[2]
    lines = [line for line in part.partition("<!-- end -->")[0].splitlines() if line[:1] == "|"]
    return [line[2:-2].split(" | ") for line in lines[2:]]


@pytest.fixture(scope="module")
def task():
    """A translator in float64 whose biases and gains are not those of the start."""
    torch.manual_seed(0)
    model = Transformer(20, dim=16, heads=2, layers=1).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return SimpleNamespace(model=model)


@pytest.fixture(scope="module")
def batch():
    return ParallelBatch.collate([([5, 6, 7, 8, 5], [9, 8, 12]), ([5, 9], [6, 7, 4, 4])])


@pytest.mark.parametrize("module", [heads, sinusoids])
def test_the_examples_of_the_scripts_are_true(module):
    results = doctest.testmod(module)
    assert results.attempted
    assert not results.failed


def test_the_page_says_how_sinusoids_move_and_where_their_similarity_rises():
    found = sinusoids.exact_rows()
    assert [[row[0], *row[2:]] for row in found] == [[r[0], *r[2:]] for r in rows("sinusoids")]
    assert all(float(row[1]) < 1e-11 for row in found)
    assert {row[0]: row[2] for row in found}["512"] == "43"


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_the_parts_of_a_score_sum_to_it(side, task, batch):
    with torch.no_grad():
        terms, visible = sinusoids.score_parts(task, batch, side)
        stack, norm, block = sinusoids.scored(task, side)
        ids = batch.source if side == "encoder" else shared.decoder_input(batch)
        x = stack.position.embed(task.model.source_embedding(ids), torch.arange(ids.shape[1])[None])
        scores = block.attention.scores(*block.queries_keys_values(norm(x))[:2])
    torch.testing.assert_close(torch.stack([*terms.values()]).sum(0), scores)
    assert sum(sinusoids.shares(terms, visible).values()) == pytest.approx(1)


def test_the_page_says_what_variance_xavier_gives_to_embeddings():
    for vocabulary, dim, formula, drawn, multiple, *_ in rows("variance of embeddings"):
        variance = embeddings.xavier(int(vocabulary.replace(",", "")), int(dim))
        assert [formula, multiple] == [f"{variance:.3g}", f"{variance * int(dim):.3g}"]
        assert float(drawn) == pytest.approx(variance, rel=0.02)
    found = embeddings.drawn(torch.nn.init.xavier_uniform_, 420, 64)
    assert found == pytest.approx(embeddings.xavier(420, 64), rel=0.02)


def test_tokens_of_one_length_find_themselves_without_projections():
    assert own_token.own_share(1, "layer", own_token.OPTIONS["none"], texts=20) == 100
    assert rows("own token of random tokens")[-1][:2] == ["none", "100"]
    assert own_token.own_share(1, "layer", own_token.OPTIONS["separate"], texts=20) < 25


def test_the_page_says_how_many_parameters_heads_have():
    found = heads.parameters()
    assert rows("parameters of heads") == found
    assert len({row[2] for row in found}) == 1


def test_a_dropped_head_is_a_head_of_weight_zero(batch):
    torch.manual_seed(0)
    model = Transformer(20, dim=16, heads=2, layers=1, head_scale=True).double().eval()
    ids = batch.source, batch.target
    for block in heads.attentions(model).values():
        whole = model(*ids)
        with heads.without_head(block, 1):
            dropped = model(*ids)
        torch.testing.assert_close(model(*ids), whole)
        with torch.no_grad():
            block.head_scale[1] = 0.0
        torch.testing.assert_close(model(*ids), dropped)
        assert not torch.allclose(dropped, whole)


def test_equal_maps_correlate_and_the_mean_of_a_query_does_not_count():
    weights, visible = torch.rand(2, 4, 4, dtype=torch.float64), torch.ones(2, 4, 4).bool().tril()
    other = weights + torch.rand(2, 4, 1, dtype=torch.float64)
    assert heads.correlation(weights, other, visible) == pytest.approx(1)
    assert heads.correlation(weights, 1 - other, visible) == pytest.approx(-1)


def test_the_page_says_what_layers_multiply():
    assert rows("products of layers") == quadratic.formulas()
    assert rows("share of the square") == quadratic.shares()


@pytest.mark.nightly
def test_the_scripts_run(tmp_path, monkeypatch):
    (tmp_path / "tiny.yaml").write_text(TINY, "utf-8")
    monkeypatch.setattr(shared, "SETTING", tmp_path / "tiny.yaml")
    monkeypatch.setattr(shared, "IMAGES", tmp_path)
    page = tmp_path / "claims.md"
    page.write_text(shared.PAGE.read_text("utf-8"), "utf-8")
    monkeypatch.setattr(shared, "PAGE", page)
    for script in (sinusoids, heads, own_token):
        shared.publish(script.find(tmp_path / "runs", (1,)), write=True)
    for script in (embeddings, quadratic):
        shared.publish(script.find(), write=True)
    assert len([*tmp_path.glob("*.png")]) == 5
