"""A training step of small models beside `transformers`, on one thread, where what stands around
the kernels counts: a translator beside MarianMT, a classifier beside BERT, a language model beside
GPT-2, of equal sizes and dropout. Each side in a plain loop with fused AdamW, in turn.

    OMP_NUM_THREADS=1 python benchmarks/host.py > benchmarks/host.md
    OMP_NUM_THREADS=1 python benchmarks/host.py --trainer   # our task and theirs in Trainers
    OMP_NUM_THREADS=1 python benchmarks/host.py --compile   # ours by `torch.compile` and as written

Operators are those that autograd calls, forward and backward; calls are those of Python functions.
Both counts are equal on every machine.
"""

from __future__ import annotations

import argparse
import cProfile
import logging
import pstats
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory
from threading import Semaphore
from typing import Any

import lightning.pytorch as L
import torch
import torch.nn.functional as F
import transformers
from marian import PAD, marian
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import tfzoo
from tfzoo.learning.settings import Compute
from tfzoo.masks import Mask

VOCAB, HEADS, ROWS, LENGTH, ROUNDS, STEPS, CLASSES = 1000, 4, 16, 12, 40, 120, 6
SIZES = ((32, 2), (32, 6), (64, 2), (64, 6), (128, 2), (128, 6))


class Count(TorchDispatchMode):
    """Counts operators."""

    operators = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators += 1
        return func(*args, **(kwargs or {}))


LENGTHS = torch.linspace(LENGTH // 2, LENGTH, ROWS).long()
REAL = torch.arange(LENGTH) < LENGTHS[:, None]


def translator(dim: int, layers: int) -> tuple[nn.Module, nn.Module, list[Callable[[], Tensor]]]:
    """Our model, theirs, and the loss of each."""
    ours = tfzoo.Transformer(VOCAB, dim, HEADS, layers, residual="post")
    theirs = marian(VOCAB, dim, HEADS, layers, dropout=0.1, hidden=4 * dim)
    source, target = torch.randint(4, VOCAB, (2, ROWS, LENGTH))
    labels = target.masked_fill(~REAL, -100)

    def loss() -> Tensor:
        mask = Mask.right(LENGTHS, LENGTH)
        hidden = ours.hidden(
            source, target, source_mask=mask, target_mask=Mask.right(LENGTHS, LENGTH, causal=True)
        )
        return F.cross_entropy(ours.logits(hidden).flatten(0, 1), labels.flatten())

    batch = {"input_ids": source, "attention_mask": REAL.long(), "decoder_input_ids": target}
    return ours, theirs, [loss, lambda: theirs(**batch, labels=labels).loss]


def classifier(dim: int, layers: int) -> tuple[nn.Module, nn.Module, list[Callable[[], Tensor]]]:
    sizes = {"num_hidden_layers": layers, "num_attention_heads": HEADS, "vocab_size": VOCAB}
    config = transformers.BertConfig(
        hidden_size=dim, intermediate_size=4 * dim, num_labels=CLASSES,
        attention_probs_dropout_prob=0.0, **sizes,
    )  # fmt: skip
    theirs = transformers.BertForSequenceClassification(config)
    ours = tfzoo.TransformerClassifier(
        VOCAB, CLASSES, dim, HEADS, layers, like="bert", attention_dropout=0.0,
        feedforward={"name": "gelu", "hidden": 4 * dim},
    )  # fmt: skip
    text, labels = torch.randint(4, VOCAB, (ROWS, LENGTH)), torch.arange(ROWS) % CLASSES
    batch = {"input_ids": text, "attention_mask": REAL.long(), "labels": labels}
    return ours, theirs, [
        lambda: F.cross_entropy(ours(text, mask=Mask.right(LENGTHS, LENGTH)), labels),
        lambda: theirs(**batch).loss,
    ]  # fmt: skip


def language_model(
    dim: int, layers: int
) -> tuple[nn.Module, nn.Module, list[Callable[[], Tensor]]]:
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCAB, n_embd=dim, n_layer=layers, n_head=HEADS, attn_pdrop=0.0
        )
    )
    ours = tfzoo.LanguageModel(
        VOCAB, dim, HEADS, layers, like="gpt2", attention_dropout=0.0,
        feedforward={"name": "gelu", "hidden": 4 * dim, "approximate": "tanh"},
    )  # fmt: skip
    text = torch.randint(4, VOCAB, (ROWS, LENGTH))

    def loss() -> Tensor:
        return F.cross_entropy(ours(text)[:, :-1].flatten(0, 1), text[:, 1:].flatten())

    return ours, theirs, [loss, lambda: theirs(input_ids=text, labels=text).loss]


KINDS = {"translator": translator, "classifier": classifier, "language model": language_model}


def stepper(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """What takes one step."""
    optimizer = torch.optim.AdamW(model.train().parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    step()
    return step


def medians(steps: list[Callable[[], None]]) -> list[float]:
    """The median of each step, taken in turn, in ms."""
    seconds: list[list[float]] = [[] for _ in steps]
    for _ in range(ROUNDS):
        for step, taken in zip(steps, seconds, strict=True):
            start = time.perf_counter()
            step()
            taken.append(time.perf_counter() - start)
    return [1000 * statistics.median(one) for one in seconds]


def compiled_row(kind: str, dim: int, layers: int) -> str:
    """Our model compiled beside our model as it is written."""
    steps, start = [], 0.0
    for choice in (False, True):
        model, _, losses = KINDS[kind](dim, layers)
        Compute(compile=choice).apply(model)
        start = time.perf_counter()
        steps.append(stepper(model, losses[0]))
    first = time.perf_counter() - start
    eager, compiled = medians(steps)
    sizes = f"| {kind} | {dim} | {layers} | {compiled:.1f} / {eager:.1f} "
    return f"{sizes}| {eager / compiled:.2f} | {first:.0f} |"


def row(kind: str, dim: int, layers: int) -> str:
    """A row of host.md."""
    torch.manual_seed(0)
    *models, losses = KINDS[kind](dim, layers)
    steps = [stepper(*one) for one in zip(models, losses, strict=True)]
    counted = []
    for step in steps:
        with Count() as count:
            step()
        with cProfile.Profile() as profile:
            step()
        counted.append((count.operators, pstats.Stats(profile).total_calls))
    ours, theirs = medians(steps)
    (operators, calls), (their_operators, their_calls) = counted
    return (
        f"| {kind} | {dim} | {layers} | {operators:,} / {their_operators:,} "
        f"| {calls:,} / {their_calls:,} | {ours:.1f} / {theirs:.1f} | {theirs / ours:.2f} |"
    )


class Clock(L.Callback):
    """How long each step took; after one it is the turn of ``other``."""

    other: Clock

    def __init__(self) -> None:
        self.turn, self.start, self.taken = Semaphore(0), 0.0, list[float]()

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        self.taken.append(time.perf_counter() - self.start)
        self.other.turn.release()
        self.turn.acquire(timeout=60)
        self.start = time.perf_counter()


def trainer_row(dim: int, layers: int) -> str:
    """Our task in Lightning's Trainer and MarianMT in that of ``transformers``, which take steps in
    turn; each pads the same batches and smooths their labels.
    """
    tokenizer = {"name": "bpe", "vocab_size": VOCAB}
    dataset = {"name": "numbers", "train": 4000, "val": 10, "test": 10, "long": 4}
    data = tfzoo.TranslationData(dataset=dataset, tokenizer=tokenizer, max_tokens=256)
    data.prepare_data()
    data.setup("fit")
    size = len(data.tokenizers.target)
    model = tfzoo.Transformer(size, dim, HEADS, layers, residual="post")
    peer = marian(size, dim, HEADS, layers, dropout=0.1, hidden=4 * dim)
    task, loader = tfzoo.TranslationTask(model, data.tokenizers), data.train_dataloader()
    ours, theirs, beat = Clock(), Clock(), transformers.TrainerCallback()
    ours.other, theirs.other, beat.on_step_end = theirs, ours, theirs.on_train_batch_end

    def collate(rows: list[Any]) -> dict[str, Tensor]:
        one = loader.dataset[rows[0]]
        return {
            "input_ids": one.source,
            "attention_mask": (one.source != PAD).long(),
            "decoder_input_ids": one.target[:, :-1],
            "labels": one.target[:, 1:].masked_fill(one.target[:, 1:] == PAD, -100),
        }

    def train(place: str) -> None:
        theirs.turn.acquire()
        arguments = transformers.TrainingArguments(
            place, max_steps=STEPS, per_device_train_batch_size=1, report_to=[], disable_tqdm=True,
            use_cpu=True, save_strategy="no", logging_strategy="no", optim="adamw_torch_fused",
            label_smoothing_factor=task.optim.label_smoothing,
        )  # fmt: skip
        trainer = transformers.Trainer(peer, arguments, collate, [*loader.order], callbacks=[beat])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()

    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
    with TemporaryDirectory() as place, ThreadPoolExecutor() as pool:
        other = pool.submit(train, place)
        L.Trainer(
            accelerator="cpu", devices=1, max_steps=STEPS, callbacks=[ours], limit_val_batches=0,
            enable_model_summary=False, **off,
        ).fit(task, datamodule=data)  # fmt: skip
        theirs.turn.release()
        other.result()
    one, two = (1000 * statistics.median(clock.taken[5:]) for clock in (ours, theirs))
    return f"| translator | {dim} | {layers} | {one:.1f} / {two:.1f} | {two / one:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trainer", action="store_true", help="both sides in their Trainers")
    parser.add_argument("--compile", action="store_true", help="ours, compiled and as written")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if options.trainer:
        print("| model | dim | layers | ms, tfzoo / transformers | times as fast |")
        print("|---" * 5 + "|")
        rows = (trainer_row(*size) for size in SIZES)
    elif options.compile:
        print("| model | dim | layers | ms, compiled / as written | times as fast | compiler, s |")
        print("|---" * 6 + "|")
        rows = (compiled_row(kind, 128, 3) for kind in KINDS)
    else:
        print(
            "| model | dim | layers | operators, tfzoo / transformers "
            "| Python calls | ms | times as fast |"
        )
        print("|---" * 7 + "|")
        rows = (row(kind, *size) for kind in KINDS for size in SIZES)
    for one in rows:
        print(one, flush=True)


if __name__ == "__main__":
    main()
