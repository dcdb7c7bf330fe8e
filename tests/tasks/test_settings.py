"""A task of one's own is saved and loaded with all of its settings, or refused when it is built."""

from dataclasses import dataclass, field

import pytest
import torch

import tfzoo
from tests.results import saved
from tfzoo.base.registry import create
from tfzoo.config.config import sections
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.errors import BadOption
from tfzoo.tasks.classification import ClassificationSettings


@dataclass(kw_only=True)
class FocalSettings(ClassificationSettings):
    gamma: float = 2.0


class Focal(tfzoo.ClassificationTask):
    """A plain setting of its own, beside its parent's."""

    Settings = FocalSettings
    gamma: float


@dataclass
class Focus:
    gamma: float = 2.0


@dataclass(kw_only=True)
class FocusSettings(ClassificationSettings):
    focus: Focus = field(default_factory=Focus)


class Sectioned(tfzoo.ClassificationTask):
    """A dataclass of its own: a section of the recipe."""

    Settings = FocusSettings
    focus: Focus


TASKS = (Focal, tfzoo.RegressionTask)


@pytest.fixture
def parts():
    torch.manual_seed(0)
    vocabulary = Vocabulary(create("tokenizer", "bytes"), ["no", "yes"], "bytes")
    size = len(vocabulary.tokenizer)
    made = tfzoo.TransformerClassifier(size, classes=2, dim=4, heads=1, layers=1)
    return made, vocabulary


def test_a_subclass_keeps_its_settings_and_its_parents(parts, tmp_path):
    made = Focal(*parts, gamma=3.0, optim=tfzoo.Optim(lr=0.5, label_smoothing=0.3), seed=7)
    again = Focal.load(saved(made, tmp_path / "one.ckpt"))
    assert (again.gamma, again.optim, again.seed) == (3.0, made.optim, 7)
    assert again.recipe == made.recipe
    twice = Focal.load(saved(again, tmp_path / "one.ckpt"))
    assert (twice.gamma, twice.optim.lr) == (3.0, 0.5)
    plain = Focal(*parts)
    assert plain.recipe["options"] == {"gamma": 2.0}  # stored: a default may change
    assert Focal.load(saved(plain, tmp_path / "one.ckpt")).gamma == 2.0
    sectioned = Sectioned(*parts, focus=Focus(3.0))
    assert sectioned.recipe["focus"] == {"gamma": 3.0}
    assert Sectioned.load(saved(sectioned, tmp_path / "one.ckpt")).focus == Focus(3.0)


SGD = torch.optim.SGD([torch.zeros(1)])


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda parts: Focal(*parts, gamma=torch.abs), "Focal: .* not restore gamma="),
        (lambda parts: Focal(*parts, optim={"lr": 1.0}), r"restore optim=.*; it must be Optim"),
        (lambda parts: Focal(*parts, optim=SGD), r"restore optim=.*; it must be Optim\(\.\.\.\)"),
        (lambda parts: Focal(*parts, gama=1.0), "no argument 'gama'. Did you mean 'gamma'"),
        (lambda parts: Focal(modle=parts[0]), "no argument 'modle'. Did you mean 'model'"),
        (lambda parts: tfzoo.ClassificationTask(parts[0]), "ClassificationTask needs tokenizer"),
    ],
)
def test_what_a_checkpoint_could_not_restore_is_refused_when_built(build, says, parts):
    with pytest.raises(BadOption, match=says) as error:
        build(parts)
    assert "\n" not in str(error.value)


def test_a_task_may_pass_on_whatever_it_is_given(parts):
    class Passing(tfzoo.ClassificationTask):
        def __init__(self, *args, **settings):
            super().__init__(*args, **settings)

    assert Passing(*parts, seed=3).recipe["seed"] == 3
    with pytest.raises(BadOption, match=r"Passing has no argument 'sed'\. Did you mean 'seed'"):
        Passing(*parts, sed=3)


def test_a_model_of_other_sizes_than_the_tokenizer_is_refused(parts):
    _, vocabulary = parts
    for sizes, says in [((259, 2), "vocab_size=259, .* need .*=260"), ((260, 3), "classes=3")]:
        model = tfzoo.TransformerClassifier(*sizes, dim=4, heads=1, layers=1)
        with pytest.raises(BadOption, match=says):
            tfzoo.ClassificationTask(model, vocabulary)


def test_a_recipe_without_options_gets_them(parts):
    _, tokenizer = parts
    recipe = {"model": {"dim": 4, "heads": 1, "layers": 1}}
    assert Focal.build(recipe, tokenizer).recipe == {**recipe, "options": {"gamma": 2.0}}
    assert recipe.keys() == {"model"}
    assert sections(Focal)["options"].hints == {"gamma": float}
    smoothing = {one: sections(one)["optim"].defaults["label_smoothing"] for one in TASKS}
    assert smoothing == {Focal: 0.1, tfzoo.RegressionTask: 0.0}
    assert Focal.build({**recipe, "options": {"gamma": 3.0}}, tokenizer).gamma == 3.0


def test_a_class_without_the_setting_does_not_load_it(parts, tmp_path):
    with pytest.raises(BadOption, match="no argument 'gamma'"):
        tfzoo.ClassificationTask.load(saved(Focal(*parts, gamma=3.0), tmp_path / "one.ckpt"))


def test_what_is_not_the_tokenizer_of_the_task_is_one_error():
    model = tfzoo.Transformer(16, dim=8, heads=2, layers=1)
    tokenizer = create("tokenizer", "bytes")
    with pytest.raises(BadOption, match=r"needs the tokenizers of its data, .*, not Bytes"):
        tfzoo.TranslationTask(model, tokenizer)
    rows = [("a", "x"), ("b", "y")]
    data = tfzoo.ClassificationData(train=rows, val=rows, tokenizer="bytes")
    data.prepare_data()
    with pytest.raises(BadOption, match=r"needs the vocabulary of its data, .*, not Classif"):
        tfzoo.ClassificationTask(tfzoo.TransformerClassifier(5, 2, dim=8, heads=2), data)
    with pytest.raises(BadOption, match="there after"):
        tfzoo.ClassificationData(train=rows, val=rows).train_dataloader()
