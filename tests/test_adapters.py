"""Private names of other packages: each is there and does what its adapter says.

A test that fails here after an upgrade names the function of ``tfzoo/base/adapters.py`` to mend.
"""

import ast
import csv
import inspect
import sys
from pathlib import Path

import lightning.pytorch as L
import pytest
import torch
from lightning.pytorch.callbacks import WeightAveraging
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import ModelParallelStrategy

import tfzoo
from tests.trainers import quiet
from tfzoo.base import adapters

ROOT = Path(tfzoo.__file__).parent


class Seen(L.Callback):
    """What the adapters answer after each batch of training."""

    def __init__(self) -> None:
        self.due: list[bool] = []
        self.accumulating: list[bool] = []
        self.steps: list[int] = []
        self.logged: list[dict[str, float] | None] = []
        self.of_epoch: set[str] = set()

    def on_train_batch_end(self, trainer, *args):
        self.due.append(adapters.validation_is_due(trainer))
        self.accumulating.append(adapters.is_accumulating(trainer))
        self.steps.append(adapters.logged_step(trainer))
        self.logged.append(adapters.values_to_log(trainer))
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
    assert seen.due == [False, False, False, True, False, False]
    assert seen.accumulating == [True, False, True, False, True, False]
    assert seen.of_epoch == {"mean"}
    # Lightning counts the step after the callbacks of its batch
    assert seen.steps == [0, 0, 1, 1, 2, 2]
    assert [row["seen"] for row in seen.logged if row] == [0, 1, 2, 3, 4, 5]
    adapters.set_logged_step(trainer, 7)
    assert adapters.logged_step(trainer) == 7


def test_the_average_of_a_callback():
    callback, model = WeightAveraging(), BoringModel()
    assert adapters.average_of(callback) is None
    callback.setup(L.Trainer(logger=False, enable_checkpointing=False), model, "fit")
    average = adapters.average_of(callback)
    assert type(average) is BoringModel
    assert average is not model


def test_samplers_are_kept_in_several_processes():
    trainer = L.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    adapters.keep_samplers(trainer)
    assert trainer._accelerator_connector.use_distributed_sampler is False
    source = inspect.getsource(type(trainer._data_connector)._requires_distributed_sampler)
    assert "._accelerator_connector.use_distributed_sampler" in source, (
        "Lightning reads it elsewhere"
    )


def test_the_sizes_of_a_device_mesh():
    source = inspect.getsource(ModelParallelStrategy.setup_environment)
    strategy = ModelParallelStrategy()
    adapters.set_parallel_sizes(strategy, data=3)
    for name in ("_data_parallel_size", "_tensor_parallel_size"):
        assert f"self.{name}" in source, "Lightning reads the sizes elsewhere now"
    assert (strategy._data_parallel_size, strategy._tensor_parallel_size) == (3, 1)


def test_buffers_that_ddp_leaves_alone():
    model = torch.nn.BatchNorm1d(2)
    adapters.ignore_in_ddp(model, ["running_mean"])
    source = inspect.getsource(torch.nn.parallel.DistributedDataParallel.__init__)
    assert "_ddp_params_and_buffers_to_ignore" in source
    assert model._ddp_params_and_buffers_to_ignore == ["running_mean"]


def test_a_fused_optimiser_can_be_clipped():
    from lightning.pytorch.plugins.precision.amp import MixedPrecision

    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))], fused=True)
    assert optimizer._step_supports_amp_scaling is True
    adapters.allow_clipping_of_fused(optimizer)
    assert optimizer._step_supports_amp_scaling is False
    assert "clip_gradients" in vars(MixedPrecision), "Lightning refuses it elsewhere now"


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="no oneDNN")
def test_a_product_by_onednn_takes_any_rows_and_strides():
    weight, bias = torch.randn(130, 24), torch.randn(130)
    for w in (weight, weight.T.contiguous().T):
        for b in (bias, None):
            for rows in (0, 1, 7, 32, 100):
                for x in (torch.randn(rows, 24), torch.randn(24, rows).T):
                    wanted = torch.nn.functional.linear(x, w, b)
                    found = adapters.onednn_linear(x, w, b)
                    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_changes_in_place_are_counted():
    x = torch.zeros(2, 3)
    view = x.view(6)
    view.add_(1.0)
    assert adapters.version(x) == adapters.version(view) == 1


def test_tensors_are_scaled_in_place():
    tensors = [torch.ones(2), torch.full((3, 1), 2.0)]
    adapters.scale_in_place(tensors, 0.5)
    assert [one.tolist() for one in tensors] == [[0.5, 0.5], [[1.0], [1.0], [1.0]]]


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


@pytest.mark.parametrize("name", ["BLEU", "CHRF"])
def test_statistics_of_lines_give_the_score_of_a_corpus(name):
    import sacrebleu.metrics

    metric = getattr(sacrebleu.metrics, name)()
    hypotheses, references = ["a b c d e", "the cat sat on"], ["a b c d f", "the cat sat here"]
    lines = adapters.line_statistics(metric, hypotheses, references)
    assert len(lines) == 2
    sums = [sum(column) for column in zip(*lines, strict=True)]
    expected = getattr(sacrebleu.metrics, name)().corpus_score(hypotheses, [references]).score
    assert adapters.score_of_statistics(metric, sums) == pytest.approx(expected, abs=1e-9)


def test_ray_prints_through_one_function():
    ray = pytest.importorskip("ray")
    before = ray._private.worker.print_to_stdstream
    try:
        assert "print_to_stdstream" in inspect.getsource(ray._private.worker)
        adapters.silence_ray_workers(ray)
        ray._private.worker.print_to_stdstream("words", ignore_prefix=True)
    finally:
        ray._private.worker.print_to_stdstream = before


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


def test_what_is_compiled_can_run_as_written():
    compiled = torch.compile(lambda x: torch.compiler.is_compiling(), backend="eager")
    assert compiled(torch.ones(1))
    assert "torch._dynamo" in sys.modules
    with adapters.uncompiled():
        assert not compiled(torch.ones(1))


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
