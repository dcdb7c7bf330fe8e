"""What one GPU makes of tfzoo, beside PyTorch and `transformers`: training steps, attention, norms,
the loss, beam search, memory.

    python -m benchmarks.gpu > benchmarks/gpu.md       # at most 4 minutes
    python -m benchmarks.gpu --device cpu --small      # prints, in seconds: to see that it runs

Each part has a time limit of its own, and each row is printed as soon as it is measured. The two
sides of a ratio take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.marian import Endless, batches, mask_of, pair, their_loss
from tfzoo.base import kernels
from tfzoo.base.registry import create, registry
from tfzoo.base.special_ids import OWN
from tfzoo.learning.cross_entropy import cross_entropy
from tfzoo.masks import Mask
from tfzoo.models.positioned import bias_of_distance, within
from tfzoo.search import Search, search

EOS, PAD = OWN.eos, OWN.pad

BASE = {"vocab_size": 37000, "dim": 512, "heads": 8, "layers": 6, "dropout": 0.1, "hidden": 2048}
BIG = {"vocab_size": 37000, "dim": 1024, "heads": 16, "layers": 6, "dropout": 0.3, "hidden": 4096}
TINY = {"vocab_size": 100, "dim": 32, "heads": 2, "layers": 1, "dropout": 0.1, "hidden": 64}
TOKENS, MEAN = 8192, 27.0
AIM = "Aim: 1.3 times `transformers`, at half of the card's speed in matrix products."


@dataclass
class Run:
    """What is measured, on what, until when."""

    device: torch.device
    small: bool
    ends: float = 0.0
    products: float = float("nan")
    """Floating-point operations per second of a large matrix product in bf16."""

    @property
    def half(self) -> torch.dtype:
        return torch.bfloat16

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, run: Callable[[], object]) -> float:
        self.wait()
        began = time.perf_counter()
        run()
        self.wait()
        return time.perf_counter() - began

    def compare(self, ours: Callable[[], object], theirs: Callable[[], object]) -> Compared:
        """Run both in turn, until a part's time is over or the interval is narrow."""
        found = Compared()
        for run in (ours, theirs):  # warm up
            run(), run()
        most = 3 if self.small else 40
        while len(found.ours) < 3 or (time.monotonic() < self.ends and len(found.ours) < most):
            order = ((ours, found.ours), (theirs, found.theirs))
            for run, times in order if len(found.ours) % 2 else order[::-1]:
                times.append(self.seconds(run))
        return found

    def memory(self, run: Callable[[], object]) -> str:
        """What the allocator holds at most while something runs, in GiB; empty on a CPU."""
        if self.device.type != "cuda":
            return ""
        self.wait()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        self.wait()
        return f"{(torch.cuda.max_memory_allocated() - before) / 2**30:.2f}"

    def kernels(self, run: Callable[[], object]) -> str:
        """Milliseconds that the GPU computes, without what it waits for; empty on a CPU."""
        if self.device.type != "cuda":
            return ""
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            run()
            self.wait()
        return f"{sum(one.self_device_time_total for one in profiler.key_averages()) / 1e3:.3g}"


@dataclass
class Compared:
    """Seconds of two sides that took turns."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    def cells(self) -> list[str]:
        """Both medians, and how many times ours is as fast, with an interval of 95 %."""
        ratios = [b / a for a, b in zip(self.ours, self.theirs, strict=True)]
        low, high = stats.t.interval(
            0.95, len(ratios) - 1, statistics.mean(ratios), stats.sem(ratios)
        )
        times = [f"{1e3 * statistics.median(side):.2f}" for side in (self.ours, self.theirs)]
        return [*times, f"{statistics.mean(ratios):.2f} ({low:.2f} to {high:.2f})"]


Rows = Iterator[list[str]]


@dataclass
class Part:
    """A table: its rows are measured in at most ``limit`` seconds."""

    title: str
    columns: list[str]
    rows: Callable[[Run], Rows]
    limit: float
    expected: int
    """Rows, each of which is measured for its share of two thirds of the time."""


def products(run: Run) -> Rows:
    """The speed of matrix products alone, forward and backward shapes alike."""
    for size in (64, 128) if run.small else (2048, 4096, 8192):
        a, b = (torch.randn(size, size, device=run.device, dtype=run.half) for _ in range(2))
        times = [run.seconds(lambda a=a, b=b: a @ b) for _ in range(12)][2:]
        speed = 2 * size**3 / statistics.median(times)
        run.products = max(speed, run.products if run.products == run.products else 0.0)
        yield [str(size), f"{speed / 1e12:.3f}"]


def training_step(sizes: dict[str, Any], most: int = TOKENS) -> Callable[[Run], Rows]:
    """Forward, backward and AdamW under autocast to bf16, as ``precision: bf16-mixed``."""

    def rows(run: Run) -> Rows:
        given = TINY if run.small else sizes
        ours, theirs = (model.to(run.device).train() for model in pair(**given))
        assert theirs.config._attn_implementation == "sdpa"
        tokens, mean = (64, 6.0) if run.small else (most, MEAN)
        made = [prepare(run, *one) for one in batches(8, given["vocab_size"], tokens, mean)]
        steps = [stepper(run, ours, our_loss), stepper(run, theirs, their_mean)]
        memory = [run.memory(lambda step=step: step(made[0])) for step in steps]
        for batch in made:  # memory is reserved, and ways to multiply are chosen, for each length
            for step in steps:
                step(batch)
        with FlopCounterMode(display=False) as counter:
            for batch in made:
                steps[0](batch)
        order = [0, 0]

        def turn(side: int) -> Callable[[], object]:
            def step() -> None:
                steps[side](made[order[side] % len(made)])
                order[side] += 1

            return step

        found = run.compare(turn(0), turn(1))
        operations = counter.get_total_flops() / len(made)
        share = operations / statistics.median(found.ours) / run.products
        predicted = statistics.mean(len(batch[2]) for batch in made)
        speeds = [
            f"{predicted / statistics.median(side):,.0f}" for side in (found.ours, found.theirs)
        ]
        kernels = [run.kernels(lambda step=step: step(made[0])) for step in steps]
        yield [*speeds, found.cells()[2], f"{share:.2f}", " / ".join(memory), " / ".join(kernels)]

    return rows


Batch = tuple[Tensor, Tensor, Tensor, list[Mask]]


def prepare(run: Run, source: Tensor, target: Tensor) -> Batch:
    """A batch on the device, with what the collator knows of it."""
    real = (target[:, 1:] != PAD).flatten().nonzero()[:, 0]
    source, target = source.to(run.device), target.to(run.device)
    return source, target, real.to(run.device), [*map(mask_of, (source, target[:, :-1]))]


def our_loss(model: Any, batch: Batch) -> Tensor:
    source, target, real, (source_mask, target_mask) = batch
    hidden = model.hidden(source, target[:, :-1], source_mask=source_mask, target_mask=target_mask)
    wanted = target[:, 1:].flatten()[real]
    hidden = hidden.flatten(0, 1)[real]
    return cross_entropy(hidden, model.output_weight, wanted)[0] / len(real)


def their_mean(model: Any, batch: Batch) -> Tensor:
    return their_loss(model, batch[0], batch[1])


def stepper(run: Run, model: nn.Module, loss: Callable[..., Tensor]) -> Callable[[Batch], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(batch: Batch) -> None:
        with torch.autocast(run.device.type, torch.bfloat16):
            value = loss(model, batch)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def both_ways(run: Callable[[], Tensor], inputs: list[Tensor]) -> Callable[[], object]:
    """Forward and backward."""

    def step() -> None:
        out = run()
        torch.autograd.grad(out, inputs, torch.ones_like(out))

    return step


def attention(run: Run) -> Rows:
    """Causal, without padding, against SDPA."""
    for length in (16,) if run.small else (128, 512, 2048):
        shape = (2, 2, length, 16) if run.small else (8, 8, length, 64)
        for name in registry("attention").names():
            part = create("attention", name, heads=shape[1], head_dim=shape[3], layer=0)
            part = part.to(run.device, run.half)
            q, k, v = (draw(run, *shape) for _ in range(3))
            through = [q, k, v]
            yield [name, str(length), *measured(
                run,
                both_ways(lambda p=part, a=(q, k, v): p(*a, mask=Mask(causal=True)), through),
                both_ways(
                    lambda a=(q, k, v): F.scaled_dot_product_attention(*a, is_causal=True), through
                ),
            )]  # fmt: skip


def flex(run: Run) -> Rows:
    """Through FlexAttention, against PyTorch's other operations."""
    length, window = (300, 20) if run.small else (4096, 512)
    b, h, c = (1, 2, 16) if run.small else (2, 8, 64)
    place = torch.arange(length, device=run.device)[None]
    near = within(place, place, window - 1, causal=True)
    attention = create("attention", "scaled_dot_product")
    q, k, v = (draw(run, b, h, length, c) for _ in range(3))
    for name, seen in FLEX:
        given: dict[str, Any] = {"mask": Mask(causal=True)}
        if seen == "window":
            given = {"mask": Mask(causal=True, allowed=near)}
        elif seen == "cap":
            given["cap"] = 50.0
        else:
            options = {"dim": c * h, "heads": h, "causal": True}
            position = create("position", name, **options).to(run.device).requires_grad_(False)
            given["bias"] = bias_of_distance(position, place, place)
        step = both_ways(lambda given=given: attention(q, k, v, **given), [q, k, v])
        yield [name, *measured(run, step, without_kernels(step))]


FLEX = [("soft cap", "cap"), ("window", "window"), ("alibi", ""), ("relative_bias", "")]


def without_kernels(step: Callable[[], object]) -> Callable[[], object]:
    """By PyTorch's other operations."""

    def plain() -> None:
        with mock.patch.dict(os.environ, {kernels.VARIABLE: "0"}):
            step()

    return plain


def norms(run: Run) -> Rows:
    """Against torch's layer norm of as many features."""
    shape = (2, 8, 32) if run.small else (64, 128, 1024)
    valid = torch.ones(shape[:2], dtype=torch.bool, device=run.device)
    for name in registry("norm").names():
        if name == "none":
            continue
        part = create("norm", name, dim=shape[2]).to(run.device, run.half)
        x, other = draw(run, *shape), nn.LayerNorm(shape[2]).to(run.device, run.half)
        yield [name, *measured(
            run,
            both_ways(lambda p=part, x=x: p(x, valid), [x]),
            both_ways(lambda o=other, x=x: o(x), [x]),
        )]  # fmt: skip


def loss(run: Run) -> Rows:
    """Against a linear layer and ``F.cross_entropy`` in fp32, label smoothing 0.1."""
    dim, vocabulary = (16, 50) if run.small else (512, 37000)
    for tokens in (32,) if run.small else (1024, 8192, 32768):
        hidden = draw(run, tokens, dim)
        weight = draw(run, vocabulary, dim)
        wanted = torch.randint(4, vocabulary, (tokens,), device=run.device)

        def plain(h: Tensor = hidden, w: Tensor = weight, y: Tensor = wanted) -> Tensor:
            return F.cross_entropy(F.linear(h, w).float(), y, reduction="sum", label_smoothing=0.1)

        yield [str(tokens), *measured(
            run,
            both_ways(
                lambda h=hidden, w=weight, y=wanted: cross_entropy(h, w, y, 0.1, PAD)[0],
                [hidden, weight],
            ),
            both_ways(plain, [hidden, weight]),
        )]  # fmt: skip


def beam_search(run: Run) -> Rows:
    """32 sentences of 20 tokens against ``generate``, at the base size, in bf16."""
    given = {**(TINY if run.small else BASE), "dropout": 0.0}
    length = 4 if run.small else 20
    ours, theirs = (model.to(run.device, run.half).eval() for model in pair(**given))
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(
        4, given["vocab_size"], (4 if run.small else 32, 14), generator=generator
    )
    source[:, -1] = EOS
    source = source.to(run.device)
    for beam in (1, 5):
        how = Search(beam=beam, max_length=1000.0, length_penalty=0.0)

        def generate(beam: int = beam) -> object:
            return theirs.generate(
                source, attention_mask=source != PAD, num_beams=beam, do_sample=False,
                min_new_tokens=length, max_new_tokens=length, length_penalty=0.0,
                bad_words_ids=[[PAD], [2]],
            )  # fmt: skip

        with torch.no_grad():
            cells = measured(
                run,
                lambda how=how: search(Endless(ours, length), source, how, special=OWN),
                generate,
            )
        yield [str(beam), *cells]


def measured(run: Run, ours: Callable[[], object], theirs: Callable[[], object]) -> list[str]:
    """Milliseconds of both, their ratio, and of each the memory that it needs at most and the time
    that the GPU computes.
    """
    memory = [run.memory(side) for side in (ours, theirs)]
    cells = run.compare(ours, theirs).cells()
    return [*cells, " / ".join(memory), " / ".join(map(run.kernels, (ours, theirs)))]


def draw(run: Run, *shape: int) -> Tensor:
    return torch.randn(*shape, device=run.device, dtype=run.half, requires_grad=True)


TIMES = ["tfzoo, ms", "other, ms", "times as fast (95 % interval)", "peak memory, GiB"]
TIMES += ["kernels alone, ms"]
STEPS = ["tfzoo, tokens/s", "transformers, tokens/s", "times as fast (95 % interval)"]
STEPS += ["share of the speed of products", "peak memory, GiB", "kernels alone, ms"]
PARTS = [
    Part("Matrix products in bf16", ["size", "10^12 operations/s"], products, 5, 3),
    Part("Training step, wmt14_base", STEPS, training_step(BASE), 25, 1),
    Part("Training step, wmt14_base, 32,768 tokens", STEPS, training_step(BASE, 32768), 25, 1),
    Part("Training step, wmt14_big", STEPS, training_step(BIG), 25, 1),
    Part("Attention, causal, against SDPA", ["attention", "length", *TIMES], attention, 35, 24),
    Part("FlexAttention against all pairs", ["what", *TIMES], flex, 45, 4),
    Part("Norms against torch's LayerNorm", ["norm", *TIMES], norms, 10, 6),
    Part("Loss against F.cross_entropy", ["tokens", *TIMES], loss, 15, 3),
    Part("Beam search against generate", ["beam", *TIMES], beam_search, 30, 2),
]
assert sum(part.limit for part in PARTS) <= 230  # 4 minutes, with the imports


def show(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)


def measure(part: Part, run: Run) -> None:
    show("", f"## {part.title}", "")
    show(f"| {' | '.join(part.columns)} |", "|" + "---|" * len(part.columns))
    began = time.monotonic()
    rows = part.rows(run)
    while True:
        run.ends = time.monotonic() + part.limit * 2 / 3 / part.expected
        try:
            row = next(rows)
        except StopIteration:
            return
        except (RuntimeError, AssertionError) as error:
            show("", f"Stopped: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
            return
        show(f"| {' | '.join(row)} |")
        if time.monotonic() - began > part.limit:
            show("", f"Stopped after {part.limit:g} seconds.")
            return


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes at which all runs in seconds")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here; --device cpu --small shows that the parts run")
    device = torch.device(options.device)
    torch.manual_seed(0)
    card = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    show("# tfzoo on one GPU", "")
    show(f"{card}, torch {torch.__version__}, bf16: `python -m benchmarks.gpu`. {AIM}")
    run = Run(device, options.small)
    for part in PARTS:
        measure(part, run)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
