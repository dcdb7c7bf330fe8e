"""How WMT14 big scales from 8 to 512 GPUs under DDP and FSDP2: the tables of docs/scale.md.

    python benchmarks/scaling.py                       # what the page shows
    python benchmarks/scaling.py --step 0.030          # with the seconds that a step takes on one
    #                                                  # of your GPUs alone
    python benchmarks/scaling.py --measure             # measures a step of the model here, on the
    #                                                  # CPU, and counts its operations
    python benchmarks/scaling.py --write               # how a start, a step, a save and a resume
    #                                                  # grow (growth.py); writes scaling.md; with
    #                                                  # --part PART one of its parts

Each input is an option, with its default. Only ``--measure`` and ``--write`` measure, the first
what the model asks for:
operations a token, bytes of gradients, and the step time of this machine. What a GPU makes of it
without ``--step`` is worked out: the operations that were counted, at ``--use`` of ``--flops``. A
collective goes in rings within a machine, each GPU's share then over its own link between machines:
along a tree where
DDP reduces, in a ring where FSDP2 gathers and scatters, as NCCL does. What is computed at the same
time hides it: for DDP the backward (2/3 of the step), for FSDP2 the whole step; the last message of
the backward, and FSDP2's first of the forward, nothing hides.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from math import log2
from pathlib import Path

GPUS = (8, 16, 32, 64, 128, 256, 512)
DIM, HIDDEN, LAYERS, VOCAB = 1024, 4096, 6, 37000
ATTENTION, FEEDFORWARD, NORM = 4 * DIM * (DIM + 1), 2 * DIM * HIDDEN + HIDDEN + DIM, 2 * DIM
ENCODER, DECODER = ATTENTION + FEEDFORWARD + 2 * NORM, 2 * ATTENTION + FEEDFORWARD + 3 * NORM
PARAMETERS = VOCAB * DIM + LAYERS * (ENCODER + DECODER)
BUCKET = 25 * 2**20
"""Bytes that DDP sends at a time: the default of ``DistributedDataParallel``."""


@dataclass(frozen=True)
class Machine:
    """Speeds, in units a second, and a delay in seconds."""

    inner: float
    outer: float
    delay: float
    gpus: int = 8

    def half(self, size: float, messages: float, gpus: int, tree: bool = False) -> float:
        """Seconds of a reduce-scatter or an all-gather of ``size`` bytes: half an all-reduce."""
        near, far = min(gpus, self.gpus), max(gpus // self.gpus, 1)
        within = (near - 1) / near * size / self.inner + messages * (near - 1) * self.delay
        between = (far - 1) / far * size / near / self.outer + messages * (
            log2(far) if tree else far - 1
        ) * self.delay
        return within + between


def ddp(machine: Machine, compute: float, update: float, gpus: int) -> float:
    """Seconds of a step."""
    size, messages = 4 * PARAMETERS, 4 * PARAMETERS / BUCKET
    talk, last = (
        2 * machine.half(size, messages, gpus, True),
        2 * machine.half(BUCKET, 1, gpus, True),
    )
    return compute + max(talk - last - 2 / 3 * compute, 0) + last + update


def fsdp2(machine: Machine, compute: float, update: float, gpus: int) -> float:
    """Seconds of a step: parameters come twice, gradients go once, a message a layer each, and one
    for what lies outside of layers.
    """
    units = 2 * LAYERS + 1
    talk, unit = (
        3 * machine.half(4 * PARAMETERS, units, gpus),
        machine.half(4 * PARAMETERS / units, 1, gpus),
    )
    return compute + max(talk - 2 * unit - compute, 0) + 2 * unit + update / gpus


def operations(tokens: float) -> float:
    """Of a step of so many tokens a side: 6 for each weight and token, forward and backward."""
    return 6 * tokens * (LAYERS * (ENCODER + DECODER) + VOCAB * DIM)


def measure(tokens: int = 256, sentence: int = 32, steps: int = 3) -> None:
    """Print what one step of the recipe's model costs on this CPU, in fp32, and how many operations
    a GPU would have to do.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    import tfzoo

    shape = {
        "dim": DIM,
        "heads": 16,
        "layers": LAYERS,
        "feedforward": {"name": "relu", "hidden": HIDDEN},
        "residual": "post",
        "tie": "all",
    }
    model = tfzoo.Transformer(VOCAB, **shape, dropout=0.0).train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    source, target = (torch.randint(4, VOCAB, (tokens // sentence, sentence)) for _ in range(2))

    def step() -> None:
        loss = torch.nn.functional.cross_entropy(
            model(source, target).flatten(0, 1), target.flatten()
        )
        loss.backward()

    with FlopCounterMode(display=False) as counter:
        step()
    gradients = sum(
        p.grad.numel() * p.grad.element_size() for p in model.parameters() if p.grad is not None
    )
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    counted, fastest = counter.get_total_flops(), min(seconds)
    print(
        f"measured on {torch.get_num_threads()} threads of this CPU, {tokens} tokens a side in "
        f"sentences of {sentence}, fp32:"
    )
    print(f"{fastest:.2f} s a step, the fastest of {steps}; {gradients / 1e6:,.0f} MB of gradients")
    print(
        f"counted: {counted / tokens / 1e9:.3f} GFLOP a token; worked out below with "
        f"{operations(1) / 1e9:.3f}"
    )
    print(f"so this CPU computes {counted / fastest / 1e9:,.0f} GFLOP/s\n")


def memory(gpus: int, sharded: bool) -> float:
    """GB of parameters, gradients and Adam's two averages in fp32, and the buckets or two layers in
    flight; without activations.
    """
    held = 16 * PARAMETERS / (gpus if sharded else 1)
    return (held + (2 * 8 * DECODER + 8 * VOCAB * DIM if sharded else 4 * PARAMETERS)) / 1e9


def table(machine: Machine, options: argparse.Namespace, fixed: bool) -> list[str]:
    lines = [
        "| GPUs | tokens a GPU | DDP, ms | efficiency | FSDP2, ms | efficiency |",
        "|---|---|---|---|---|---|",
    ]
    ends: dict[str, int] = {}
    first: dict[str, float] = {}
    before: dict[str, float] = {}
    for gpus in GPUS:
        tokens = options.tokens * 8 / gpus if fixed else options.tokens
        compute = (
            (options.step or operations(options.tokens) / options.flops / options.use)
            * tokens
            / options.tokens
        )
        update = 28 * PARAMETERS / options.hbm
        row = [f"{gpus}", f"{tokens:,.0f}"]
        for name, strategy in (("DDP", ddp), ("FSDP2", fsdp2)):
            seconds = strategy(machine, compute, update, gpus)
            speed = tokens * gpus / seconds
            row += [
                f"{1000 * seconds:.1f}",
                f"{speed / gpus / first.setdefault(name, speed / gpus):.0%}",
            ]
            if name in before and name not in ends and speed < options.pays * before[name]:
                ends[name] = gpus // 2
            before[name] = speed
        lines.append(f"| {' | '.join(row)} |")
    said = ", ".join(
        f"{name} {f'stops paying at {ends[name]}' if name in ends else 'pays all the way'}"
        for name in before
    )
    return [
        *lines,
        "",
        f"{said} (twice the GPUs, at least {options.pays} times the tokens a second).",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=float, default=3125, help="a GPU and side, on 8 GPUs")
    parser.add_argument(
        "--step", type=float, help="seconds of one GPU for these; default: from operations"
    )
    parser.add_argument(
        "--flops", type=float, default=989e12, help="bf16, dense, of an H100 SXM (its data sheet)"
    )
    parser.add_argument(
        "--use", type=float, default=0.35, help="the share of it that training gets: assumed"
    )
    parser.add_argument(
        "--hbm",
        type=float,
        default=3.35e12,
        help="bytes a second of memory, of an H100 SXM (its data sheet)",
    )
    parser.add_argument(
        "--inner",
        type=float,
        default=450e9,
        help="bytes a second and direction within a machine: NVLink of an H100",
    )
    parser.add_argument(
        "--outer",
        type=float,
        default=50e9,
        help="bytes a second and GPU between machines: 400 Gb/s each",
    )
    parser.add_argument(
        "--slow", type=float, default=12.5e9 / 8, help="the same where 8 GPUs share 100 Gb/s"
    )
    parser.add_argument(
        "--delay", type=float, default=5e-6, help="seconds a message and hop: assumed"
    )
    parser.add_argument(
        "--pays", type=float, default=1.5, help="by how much twice the GPUs must be faster"
    )
    parser.add_argument(
        "--measure", action="store_true", help="a step of the model on this CPU first"
    )
    parser.add_argument(
        "--grow", action="store_true", help="print the tables of scaling.md, on this machine"
    )
    parser.add_argument("--write", action="store_true", help="scaling.md beside this script")
    parser.add_argument(
        "--part",
        choices=("processes", "shards", "parameters", "pairs"),
        help="of these tables; default: all",
    )
    parser.add_argument("--small", action="store_true", help="the smallest sizes of these tables")
    options = parser.parse_args()
    if options.grow or options.write:
        grow(options)
        return
    if options.measure:
        measure()
    compute = options.step or operations(options.tokens) / options.flops / options.use
    print(
        f"{PARAMETERS:,} parameters, {4 * PARAMETERS / 1e6:,.0f} MB of gradients; "
        f"{1000 * compute:.1f} ms of computing a step;"
    )
    print(
        f"GB a GPU without activations: DDP {memory(8, False):.1f}; FSDP2 {memory(8, True):.1f} "
        f"on 8, {memory(512, True):.1f} on 512."
    )
    for fixed in (False, True):
        for name, outer in (
            ("400 Gb/s a GPU", options.outer),
            ("100 Gb/s a machine", options.slow),
        ):
            kept = (
                f"{8 * options.tokens:,.0f} tokens a step"
                if fixed
                else f"{options.tokens:,.0f} tokens a GPU and step"
            )
            print(f"\n**{kept}, {name}**\n")
            print("\n".join(table(Machine(options.inner, outer, options.delay), options, fixed)))


def grow(options: argparse.Namespace) -> None:
    """Measure how trainings grow, on this machine, and write it where that is asked for: what was
    not measured now stays on the page.
    """
    import growth

    page = Path(__file__).with_suffix(".md")
    for part in [options.part] if options.part else growth.PARTS:
        lines = growth.grow(part, options.small)
        print("\n".join(lines), flush=True)
        if options.write:
            _, *before = page.read_text("utf-8").split("\n## ") if page.exists() else [""]
            found = {one.partition("\n")[0]: one for one in before}
            found[part.capitalize()] = "\n".join([part.capitalize(), *lines, ""])
            texts = [found[name] for name in map(str.capitalize, growth.PARTS) if name in found]
            page.write_text("\n## ".join([HEAD, *texts]), "utf-8")


HEAD = """\
# How a training grows

Seconds on the clock, those of the CPU of the first process in brackets, and the slope of a line
through the logarithms of sizes and seconds: 1 is proportional, 0 is constant. A start ends with its
first step, imports included; a resume too. Width 128 and 2 layers on 10,000 pairs, 512 tokens a
process and step, where nothing else is said. One thread a process, and **one core for all of them**
of an AMD EPYC that other work shared, too: processes wait for each other, so that the clock of two
and four tells little more than that.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/scaling.py --write                  # all
    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/scaling.py --part pairs --write     # a part
"""


if __name__ == "__main__":
    main()
