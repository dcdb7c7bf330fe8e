"""Private names of other packages: each is there and does what its adapter says.

A test that fails here after an upgrade names the function of ``tfzoo/base/adapters.py`` to mend.
"""

import ast
import csv
from pathlib import Path

import lightning.pytorch as L
import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger

import tfzoo
from tests.trainers import quiet
from tfzoo.base import adapters

ROOT = Path(tfzoo.__file__).parent


class Seen(L.Callback):
    """What the adapters answer after each batch of training, and before the next one."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.before: list[int] = []
        self.validated = 0
        self.of_epoch: set[str] = set()

    def on_train_start(self, trainer, module):
        adapters.before_each_batch(trainer, lambda: self.before.append(self.validated))

    def on_validation_end(self, trainer, module):
        self.validated += not trainer.sanity_checking

    def on_train_batch_end(self, trainer, *args):
        self.steps.append(adapters.logged_step(trainer))
        self.of_epoch |= adapters.names_of_epoch(trainer)


class Logging(BoringModel):
    def training_step(self, batch, batch_idx):
        self.log("seen", float(batch_idx))
        self.log("mean", float(batch_idx), on_step=False, on_epoch=True)
        return super().training_step(batch, batch_idx)


def test_the_loops_of_a_trainer(tmp_path):
    seen, model = Seen(), Logging()
    assert adapters.trainer_of(model) is None
    trainer = quiet(
        max_steps=3,
        accumulate_grad_batches=2,
        val_check_interval=4,
        limit_val_batches=1,
        log_every_n_steps=1,
        callbacks=[seen],
        logger=CSVLogger(tmp_path),
    )
    adapters.log_steps_from_one(trainer)
    trainer.fit(model)
    assert adapters.trainer_of(model) is trainer
    with next(tmp_path.rglob("metrics.csv")).open(newline="") as stream:
        assert [row["step"] for row in csv.DictReader(stream) if row["seen"]] == ["1", "2", "3"]
    assert seen.before == [0, 0, 0, 0, 1, 1], "after the validation that was due"
    assert seen.of_epoch == {"mean"}
    # Lightning counts the step after the callbacks of its batch
    assert seen.steps == [0, 0, 1, 1, 2, 2]
    adapters.set_logged_step(trainer, 7)
    assert adapters.logged_step(trainer) == 7


def test_the_attention_function_of_a_transformers_model():
    transformers = pytest.importorskip("transformers", minversion="5")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=4, patch_size=4))
    model.set_attn_implementation("eager")
    assert adapters.attention_implementation(model.layers[0].attention.config) == "eager"
    assert adapters.supports_sdpa(model)
    type(model)._supports_sdpa, before = False, type(model)._supports_sdpa
    assert not adapters.supports_sdpa(model)
    type(model)._supports_sdpa = before


def test_the_fast_path_of_torchs_layers():
    """It computes an attention of its own; an attention that is called leaves each token alone."""

    class Fast(torch.nn.MultiheadAttention):
        def forward(self, query, *args, **named):
            return torch.zeros_like(query), None

    class Called(adapters.NoTorchFastPath, torch.nn.Module):
        batch_first, in_proj_bias = True, torch.zeros(24)
        forward = Fast.forward

    layer = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    for attention, called in ((Fast(8, 2, batch_first=True), False), (Called(), True)):
        layer.self_attn = attention
        with torch.no_grad():
            found, alone = layer(x)[:, :1], layer(x[:, :1])
        assert torch.allclose(found, alone, atol=1e-6) is called


def private_names(path):
    """Attributes with one leading underscore that the file does not define itself."""
    tree = ast.parse(path.read_text("utf-8"))
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in own
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "os"))
    ]


def test_no_other_file_uses_a_private_name():
    """``_softmax_backward_data`` is an operator of ATen, for which torch has no public name."""
    found = [
        line
        for path in sorted(ROOT.rglob("*.py"))
        if path.name != "adapters.py"
        for line in private_names(path)
        if "torch.ops.aten." not in line and "self.finish._is_last" not in line
    ]
    assert found == []
