"""A task of one's own is saved and loaded with all of its settings, or refused when it is built."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import tfzoo
from tests.results import saved
from tfzoo.base.registry import create
from tfzoo.data.classification_batch import Vocabulary
from tfzoo.errors import BadOption, BadRun


@dataclass
class Focus:
    gamma: float = 2.0


class Focal(tfzoo.ClassificationTask):
    """A plain setting of its own; all others are passed on."""

    def __init__(self, *args: Any, gamma: float = 2.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gamma = gamma


class Unannotated(tfzoo.ClassificationTask):
    def __init__(self, model, tokenizer, *, gamma=2.0, **kwargs) -> None:
        super().__init__(model, tokenizer, **kwargs)
        self.gamma = gamma


class Sectioned(Focal):
    """A dataclass, which the parent is not told of."""

    def __init__(self, *args: Any, focus: Focus | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gamma = (focus or Focus()).gamma


class Callback(tfzoo.ClassificationTask):
    def __init__(self, *args: Any, weigh: Callable[[Tensor], Tensor], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.weigh = weigh


class Hidden(tfzoo.ClassificationTask):
    """A dataclass without an annotation: its class cannot be found again."""

    def __init__(self, *args, focus=None, **kwargs) -> None:
        super().__init__(*args, **kwargs)


class Fixed(tfzoo.ClassificationTask):
    """Without ``**kwargs``: the parent's settings are not its own."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        gamma: float = 2.0,
        optim: tfzoo.Optim | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, tokenizer, optim=optim, seed=seed)
        self.gamma = gamma


class Positional(tfzoo.ClassificationTask):
    def __init__(self, model: Any, tokenizer: Any, gamma: float = 2.0, **kwargs: Any) -> None:
        super().__init__(model, tokenizer, **kwargs)
        self.gamma = gamma


@pytest.fixture
def parts():
    torch.manual_seed(0)
    vocabulary = Vocabulary(create("tokenizer", "bytes"), ["no", "yes"], "bytes")
    size = len(vocabulary.tokenizer)
    made = tfzoo.TransformerClassifier(size, classes=2, dim=4, heads=1, layers=1)
    return made, vocabulary


@pytest.mark.parametrize(
    ("task", "given"),
    [
        (Focal, {"gamma": 3.0}),
        (Unannotated, {"gamma": 3.0}),
        (Sectioned, {"focus": Focus(3.0)}),
        (Positional, {"gamma": 3.0}),
        (Fixed, {"gamma": 3.0}),
    ],
)
def test_a_subclass_keeps_its_settings_and_its_parents(task, given, parts, tmp_path):
    made = task(*parts, **given, optim=tfzoo.Optim(lr=0.5, label_smoothing=0.3), seed=7)
    again = task.load(saved(made, tmp_path / "one.ckpt"))
    assert (again.gamma, again.optim, again.seed) == (3.0, made.optim, 7)
    assert again.recipe == made.recipe
    twice = task.load(saved(again, tmp_path / "one.ckpt"))
    assert (twice.gamma, twice.optim.lr) == (3.0, 0.5)
    plain = task(*parts)
    assert plain.recipe["options"] == {"gamma": 2.0}  # stored: a default may change
    assert task.load(saved(plain, tmp_path / "one.ckpt")).gamma == 2.0


SGD = torch.optim.SGD([torch.zeros(1)])


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda parts: Callback(*parts, weigh=torch.abs), "Callback: .* not restore weigh="),
        (lambda parts: Hidden(*parts, focus=Focus(3.0)), "annotate the parameter with its class"),
        (lambda parts: Focal(*parts, optim={"lr": 1.0}), r"restore optim=.*; it must be Optim"),
        (lambda parts: Focal(*parts, optim=SGD), r"restore optim=.*; it must be Optim\(\.\.\.\)"),
        (lambda parts: Focal(*parts, lr=1.0), r"lr is a setting of optim: optim=Optim\(lr="),
        (lambda parts: Positional(*parts, 3.0), "Positional: settings are keyword arguments"),
    ],
)
def test_what_a_checkpoint_could_not_restore_is_refused_when_built(build, says, parts):
    with pytest.raises(BadOption, match=says) as error:
        build(parts)
    assert "\n" not in str(error.value)


def test_a_model_of_other_sizes_than_the_tokenizer_is_refused(parts):
    _, vocabulary = parts
    for sizes, says in [
        ((259, 2), "vocab_size=259, .* need vocab_size=260"),
        ((260, 3), "classes=3"),
    ]:
        with pytest.raises(BadOption, match=says):
            tfzoo.ClassificationTask(
                tfzoo.TransformerClassifier(*sizes, dim=4, heads=1, layers=1), vocabulary
            )


def test_a_recipe_without_options_gets_them(parts):
    _, tokenizer = parts
    recipe = {"model": {"dim": 4, "heads": 1, "layers": 1}}
    assert Focal.build(recipe, tokenizer).recipe == {**recipe, "options": {"gamma": 2.0}}
    assert recipe.keys() == {"model"}


def test_a_class_without_the_setting_does_not_load_it(parts, tmp_path):
    with pytest.raises(BadRun, match="gamma"):
        tfzoo.ClassificationTask.load(saved(Focal(*parts, gamma=3.0), tmp_path / "one.ckpt"))


def test_what_is_not_the_tokenizer_of_the_task_is_one_error():
    model = tfzoo.Transformer(16, dim=8, heads=2, layers=1)
    tokenizer = create("tokenizer", "bytes")
    with pytest.raises(BadOption, match=r"its data, data.tokenizers, is needed, not Bytes"):
        tfzoo.TranslationTask(model, tokenizer)
