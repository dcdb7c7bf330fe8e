"""Every task with each part: padding has no influence, a checkpoint restores it."""

import pytest

from tests.daily import sampled
from tests.testing.covering import covering, interactions
from tests.testing.rules import CHOSEN, reads_all, refused_by
from tests.trainers import quiet
from tfzoo.base.registry import registry
from tfzoo.errors import BadData
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.language_model import LanguageModel
from tfzoo.models.transformer import Transformer
from tfzoo.testing import training as contracts
from tfzoo.testing.contract import run_contract

KINDS = [kind for kind in CHOSEN if kind != "side"]
COLUMNS = {"task": registry("task").own_names(), **{kind: CHOSEN[kind] for kind in KINDS}}


def side_of(task):
    """What stack the model of a task has."""
    model = registry("task").entry(task).cls.Model
    return {Transformer: "translator", LanguageModel: "decoder"}.get(model, "encoder")


def pools(task):
    """Whether a recipe of the task names a pooling."""
    cls = registry("task").entry(task).cls
    return cls.Model is TransformerClassifier and "pooling" not in cls.model_arguments()


def runs(row):
    """Whether a combination, or a part of one, is neither refused nor chosen in vain."""
    if "task" not in row:
        return True
    if "pooling" in row and not pools(row["task"]) and row["pooling"] != COLUMNS["pooling"][0]:
        return False
    stack = {key: part for key, part in row.items() if key != "task"}
    if not pools(row["task"]):
        stack.pop("pooling", None)
    stack["side"] = side_of(row["task"])
    return reads_all(stack, {"side": ["encoder", "decoder", "translator"]}) and not refused_by(
        stack
    )


def rows():
    elsewhere = interactions({kind: COLUMNS[kind] for kind in KINDS}, 2)
    return covering(COLUMNS, 2, runs, list(elsewhere))


ROWS = rows()


def named(row):
    return " ".join(row.values())


@pytest.mark.parametrize("row", sampled(ROWS, ROWS[:: len(ROWS) // 6]), ids=named)
def test_a_task_holds_its_contracts_with_every_part(row, monkeypatch):
    parts = {kind: row[kind] for kind in KINDS if kind != "pooling" or pools(row["task"])}
    small = {**contracts.SMALL, "model": {**contracts.SMALL["model"], **parts}}
    monkeypatch.setattr(contracts, "SMALL", small)
    entry = registry("task").entry(row["task"])
    told = contracts.padding_has_no_influence_on_scores, contracts.a_checkpoint_alone_restores_it
    for contract in told:
        result = run_contract(contract, entry)
        assert result.ok, result.message


@pytest.mark.parametrize("name", COLUMNS["task"])
def test_every_text_has_its_own_answer_in_any_company(name):
    """In the order of the texts; also a text of nothing and one that fills a batch alone."""
    task, data = contracts.example(registry("task").entry(name))
    texts = data.sets["val"][[*range(6)]].source_text
    texts = [texts[0], "\t" if "\t" in texts[0] else "", " ".join(texts), *texts]
    together = task.predict(iter(texts), max_tokens=60)
    alone = [answer for text in texts for answer in task.predict([text])]
    assert [*map(task.output_line, together)] == [*map(task.output_line, alone)]
    assert task.predict([]) == []
    with pytest.raises(BadData, match="pass a list of texts"):
        task.predict(texts[0])


@pytest.mark.parametrize("name", COLUMNS["task"])
def test_a_plain_trainer_logs_the_names_that_the_task_declares(name, tmp_path):
    """But losses of parts that its model does not have, and BLEU of texts under four words."""
    task, data = contracts.example(registry("task").entry(name))
    trainer = quiet(tmp_path, max_steps=1, log_every_n_steps=1)
    trainer.fit(task.train(), datamodule=data)
    logged = {*trainer.callback_metrics}
    trainer.validate(task, datamodule=data, verbose=False)
    logged |= trainer.callback_metrics.keys()
    declared = {*task.logged_names()}
    assert logged <= declared
    assert declared - logged <= {"train/auxiliary_loss", "val/bleu"}
    trainer.test(task, datamodule=data, verbose=False)
    scores = {one.removeprefix("val/") for one in logged if one.startswith("val/")}
    sets = ("test", *(f"test/{one}" for one in data.test_names if one != "test"))
    assert {f"{one}/{score}" for one in sets for score in scores} <= trainer.callback_metrics.keys()
