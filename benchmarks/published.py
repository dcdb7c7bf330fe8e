"""Published models beside ``transformers``: what they compute, and how they are fine-tuned.

    python -m benchmarks.published                     # needs no network: a small random BERT
    python -m benchmarks.published SOURCE ...          # folders, or hf://owner/name
    python -m benchmarks.published --hub --write       # ten named models: needs a network

Each SOURCE is imported, and its logits, or without a head its hidden states, and the ids of 4,000
lines (``--lines``) are compared with those of ``transformers``; of a folder without ``config.json``
the ids alone. ``--rounds 0`` compares nothing else.
Then BERT is fine-tuned by tfzoo and by ``transformers.Trainer``, from the same weights, with the
same batches in the same order, without dropout, each in a process of its own: the largest
difference of the losses of 20 steps, in fp32 and in float64; tokens per second, in turns, and peak
memory. Both have tfzoo's batches, of texts of similar length; a further line is of the Trainer with
as many texts a batch in random order, filled up to the longest, as its default is. ``--write``
writes benchmarks/published.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tfzoo.base.allocator import READ_AT_IMPORT

PAGE = Path(__file__).parent / "published.md"
HUB = [
    *("google-bert/bert-base-cased", "FacebookAI/roberta-base", "answerdotai/ModernBERT-base"),
    *("distilbert/distilbert-base-uncased-finetuned-sst-2-english", "openai-community/gpt2"),
    *("EleutherAI/pythia-70m", "HuggingFaceTB/SmolLM2-135M", "Qwen/Qwen3-0.6B"),
    *("facebook/bart-base", "google/flan-t5-small"),
]
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Größer als 3 Häuser: ein Straßenfest!",
    "Кошка сидит на коврике, собака бежит.",
    "猫は座布団の上に座っています。",
]
ODD = [
    *("", " ", "  two  spaces ", "\ttab", "ctrl\x01\x1b[31m", "zero\u200bwidth\ufeff", "x" * 3000),
    *("a\u0301e\u0301", "\u00e1\u00e9", "\ufb01 \u00bd \u00b2", "İ ı ß", "𝔘 \U0010ffff"),
    *("👍🏽 👩\u200d👩\u200d👧 🇩🇪", "\u1112\u1161\u11ab 한국어", "１２３ ｶﾞ", "can't 12,345.67"),
    *("שָׁלוֹם", "नमस्ते", "ไม่มีวรรค", "[SEP] <s> </s> <|endoftext|>"),
]
"""Lines that tokenizers are wrong about: spaces, control characters, combining marks, names."""
STEPS = 20
RATE, DECAY, CLIP, BETAS, EPS = 1e-3, 0.01, 1.0, (0.9, 0.999), 1e-8
NAMES = {"ours": "tfzoo", "theirs": "transformers.Trainer"}
SHUFFLED = "shuffled"
"""``theirs`` with batches as its default makes them."""
RECIPE = """\
task: classification
data: {{root: {root}, max_tokens: {tokens}}}
optim:
  lr: {lr}
  betas: [0.9, 0.999]
  eps: 1.0e-8
  weight_decay: {decay}
  label_smoothing: 0.0
  schedule: {{name: constant, warmup: 0}}
trainer: {{max_steps: 20, accelerator: cpu, gradient_clip_val: {clip}}}
"""

# What a model computes ----------------------------------------------------------------------------


def compare(source: str, count: int) -> str:
    """A row of the table: a tokenizer, and its model if there is one, beside ``transformers``."""
    import transformers

    from tfzoo.runs import checkpoints

    folder = Path(source) if Path(source).is_dir() else checkpoints.find(source)
    # AutoTokenizer makes some classes anew, from their vocabulary alone.
    fast = (folder / "tokenizer.json").is_file()
    kind = transformers.PreTrainedTokenizerFast if fast else transformers.AutoTokenizer
    tokenizer = kind.from_pretrained(folder)
    found = [outputs(folder, tokenizer)] if (folder / "config.json").is_file() else []
    return f"| `{folder.name}` | {'; '.join([*found, ids(folder, tokenizer, count)])} |"


def ids(folder: Path, theirs: Any, count: int) -> str:
    """Of how many lines the ids, and the text that they give back, are those of ``theirs``:
    ``count`` of several scripts, and :data:`ODD`.
    """
    from tests.published_folders import mixed_lines
    from tfzoo.data.tokenizer import LINE_ENDS, found_in, restored

    ours, same = restored(*found_in(folder)), 0
    lines = [*ODD, *TEXTS, *mixed_lines(count)]
    wanted = theirs(lines, add_special_tokens=False, split_special_tokens=True).input_ids
    texts = theirs.batch_decode(wanted, skip_special_tokens=True)
    found = ours.encode(lines)
    for one, other, text, read in zip(found, wanted, ours.decode(wanted), texts, strict=True):
        same += one == other and text == LINE_ENDS.sub(" ", read)
    return f"ids and decoded text of {same:,} of {len(lines):,} lines equal"


def outputs(folder: Path, tokenizer: Any) -> str:
    """The largest differences of logits of :data:`TEXTS`, or without a head of hidden states, as a
    share of the largest value.
    """
    import transformers

    named = json.loads((folder / "config.json").read_text("utf-8"))["architectures"][0]
    peer = getattr(transformers, named).from_pretrained(folder, attn_implementation="eager").eval()
    model, compute = applied(folder)
    apart = []
    for dtype in (torch.float32, torch.float64):
        model.to(dtype)
        peer.to(dtype)
        largest = 0.0
        for text in TEXTS:
            read = tokenizer(text, return_tensors="pt").input_ids
            inputs = {"input_ids": read} | ({"decoder_input_ids": read} if is_pair(model) else {})
            with torch.no_grad():
                output = peer(**inputs)
                wanted = output.logits if "logits" in output else output.last_hidden_state
                found = compute(*inputs.values())
            largest = max(largest, ((found - wanted).abs().max() / wanted.abs().max()).item())
        apart.append(largest)
    what = "logits" if "logits" in output else "hidden states"
    return f"{what} {apart[0]:.1e} apart in fp32, {apart[1]:.1e} in float64"


def applied(folder: Path) -> tuple[Any, Callable[..., Tensor]]:
    """The model of a folder, and what gives its logits; of one without a head its hidden states."""
    import tfzoo
    from tfzoo.models.architectures.config import read_config
    from tfzoo.models.architectures.published import config_of, read_weights
    from tfzoo.models.initialise import fill

    published = read_config(config_of(folder))
    if not published.bare:
        model: Any = tfzoo.from_pretrained(folder)
        return model, model
    model, state, _ = read_weights(folder, published)
    zeros = {name: torch.zeros(one.shape) for name, one in model.state_dict().items()}
    fill(model, {**zeros, **state})
    classifier = isinstance(model, tfzoo.TransformerClassifier)
    return model.eval(), model.encode if classifier else model.hidden


def is_pair(model: Any) -> bool:
    """Whether it reads a source and a target."""
    import tfzoo

    return isinstance(model, tfzoo.Transformer)


# Fine-tuning --------------------------------------------------------------------------------------


def prepare(place: Path, dim: int, layers: int, rows: int, tokens: int) -> None:
    """A random BERT that classifies, its tokenizer, a recipe, and the batches of its training."""
    from tests.published_folders import LINES, save
    from tfzoo.config.config import Config
    from tfzoo.config.files import load_recipe, parse_options

    config = {
        **{
            "hidden_size": dim,
            "num_attention_heads": max(2, dim // 64),
            "num_hidden_layers": layers,
        },
        **{"intermediate_size": 4 * dim, "max_position_embeddings": 256},
        **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        "id2label": {0: "0", 1: "1"},
    }
    save("bert", "BertForSequenceClassification", config, place / "bert")
    words = " ".join(LINES).split()
    draw = torch.Generator().manual_seed(0)
    for split, count in (("train", rows), ("val", 8)):
        lines = ["text\tlabel"]
        for _ in range(count):
            length = int(torch.randint(4, 24, (), generator=draw))
            chosen = torch.randint(len(words), (length,), generator=draw).tolist()
            lines.append(" ".join(words[one] for one in chosen) + f"\t{chosen[0] % 2}")
        (place / f"{split}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    text = RECIPE.format(root=place, tokens=tokens, lr=RATE, decay=DECAY, clip=CLIP)
    (place / "recipe.yaml").write_text(text, "utf-8")
    arguments = parse_options(["--from", str(place / "bert")])
    data = Config.read(load_recipe(str(place / "recipe.yaml")), arguments).data
    data.prepare_data()
    data.setup("fit")
    batches = [(one.tokens, one.label) for one in data.train_dataloader()]
    torch.save(batches, place / "batches.pt")
    texts = [
        (row[row != 0], y) for ids, labels in batches for row, y in zip(ids, labels, strict=True)
    ]
    order = torch.randperm(len(texts), generator=draw).tolist()
    each = round(len(texts) / len(batches))
    groups = [[texts[k] for k in order[at : at + each]] for at in range(0, len(order), each)]
    padded = [
        (
            pad_sequence([ids for ids, _ in group], batch_first=True),
            torch.stack([y for _, y in group]),
        )
        for group in groups
    ]
    torch.save(padded, place / f"{SHUFFLED}.pt")


class Clock:
    """When steps ended, and their losses."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.ends: list[float] = []
        self.processor: list[float] = []
        """The time that the process has computed until then, whoever else computes."""

    def add(self, loss: float) -> None:
        self.losses.append(loss)
        self.ends.append(time.perf_counter())
        self.processor.append(time.process_time())


def ours(place: Path, steps: int, double: bool) -> Clock:
    """By tfzoo, as ``tfzoo fit`` trains: with its imports and its memory."""
    from tfzoo.base.loading import task_class

    task_class("classification")

    import lightning.pytorch as L

    from tfzoo.base.allocator import keep_freed_memory
    from tfzoo.config.config import Config
    from tfzoo.config.files import load_recipe, parse_options
    from tfzoo.training.start import load
    from tfzoo.training.train import prepared

    keep_freed_memory()
    arguments = parse_options(["--from", str(place / "bert")])
    config = Config.read(load_recipe(str(place / "recipe.yaml")), arguments)
    task, data = prepared(config, L.Trainer(accelerator="cpu", logger=False, max_steps=steps))
    assert config.start is not None  # --from
    load(config.start.run, task)
    config.start.run.forget()
    clock = Clock()

    class Record(L.Callback):
        def on_train_batch_end(self, *given: Any) -> None:
            _, _, outputs, batch, _ = given
            clock.add(outputs["loss"].item() / len(batch.label))

    trainer = L.Trainer(
        max_steps=steps,
        accelerator="cpu",
        precision="64-true" if double else "32-true",
        gradient_clip_val=CLIP,
        callbacks=[Record()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    )
    trainer.fit(task, datamodule=data)
    return clock


def theirs(place: Path, steps: int, double: bool, order: str = "batches") -> Clock:
    """By ``transformers.Trainer``, which imports nothing of tfzoo."""
    import transformers
    from torch.utils.data import DataLoader

    model = transformers.BertForSequenceClassification.from_pretrained(place / "bert")
    batches = [
        {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": label}
        for ids, label in torch.load(place / f"{order}.pt")
    ]
    clock = Clock()

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            return DataLoader(batches, batch_size=None)  # type: ignore[arg-type]  # a list

        def training_step(self, *given: Any, **named: Any) -> Any:
            loss = super().training_step(*given, **named)
            clock.add(loss.item())
            return loss

    arguments = transformers.TrainingArguments(
        output_dir=str(place / "theirs"),
        max_steps=steps,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        weight_decay=DECAY,
        adam_beta1=BETAS[0],
        adam_beta2=BETAS[1],
        adam_epsilon=EPS,
        max_grad_norm=CLIP,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        logging_steps=1000,
    )
    Trainer(model=model.double() if double else model, args=arguments).train()
    return clock


def measure(name: str, place: Path, steps: int, double: bool, threads: int) -> dict[str, Any]:
    """One training in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.published", "--one", name, "--place", str(place)]
    command += ["--steps", str(steps), "--threads", str(threads), *(["--double"] if double else [])]
    environment = {**os.environ, **(READ_AT_IMPORT if name == "ours" else {})}  # as tfzoo sets it
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def one(name: str, place: Path, steps: int, double: bool) -> dict[str, Any]:
    """What a process measures: losses, tokens per second from the fifth step on, peak memory."""
    order = SHUFFLED if name == SHUFFLED else "batches"
    clock = (ours if name == "ours" else partial(theirs, order=order))(place, steps, double)
    counts = [int((ids != 0).sum()) for ids, _ in torch.load(place / f"{order}.pt")][:steps]
    start = min(4, steps - 2)
    tokens = sum(counts[start + 1 :])
    return {
        "losses": clock.losses,
        "speed": tokens / (clock.ends[-1] - clock.ends[start]),
        "processor": tokens / (clock.processor[-1] - clock.processor[start]),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def fine_tuning(given: argparse.Namespace) -> list[str]:
    """The lines of a table."""
    lines = []
    with TemporaryDirectory() as folder:
        place = Path(folder)
        prepare(place, given.dim, given.layers, given.rows, given.tokens)
        for double in (False, True):
            found = [measure(name, place, STEPS, double, given.threads)["losses"] for name in NAMES]
            worst = max(abs(a - b) for a, b in zip(*found, strict=True))
            kind = "float64" if double else "fp32"
            lines.append(f"| losses of {STEPS} steps, {kind} | {worst:.1e} apart |")
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in (*NAMES, SHUFFLED)}
        for _ in range(given.rounds):
            for name in runs:
                runs[name].append(measure(name, place, given.steps, False, given.threads))
    for key, unit in (
        ("speed", "tokens per second"),
        ("processor", "tokens per second of processor time"),
        ("peak", "MiB at most"),
    ):
        values = {name: [run[key] for run in runs[name]] for name in NAMES}
        shares = [a / b for a, b in zip(values["ours"], values["theirs"], strict=True)]
        middle = ", ".join(f"{NAMES[name]} {median(values[name]):,.0f}" for name in NAMES)
        lines.append(
            f"| {unit} | {middle}: {median(shares):.2f} times "
            f"({min(shares):.2f} to {max(shares):.2f}) |"
        )
    speeds = [[run["speed"] for run in runs[name]] for name in ("ours", SHUFFLED)]
    shares = [a / b for a, b in zip(*speeds, strict=True)]
    lines.append(
        "| the same, the Trainer's batches in its default order | transformers.Trainer "
        f"{median(speeds[1]):,.0f}: {median(shares):.2f} times ({min(shares):.2f} to "
        f"{max(shares):.2f}) |"
    )
    return lines


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", help="folders, or hf://owner/name")
    parser.add_argument("--hub", action="store_true", help="ten named models as well")
    parser.add_argument("--write", action="store_true", help="into benchmarks/published.md")
    parser.add_argument("--lines", type=int, default=4000, help="whose ids are compared")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--tokens", type=int, default=2048, help="of a batch, padding included")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--one", choices=(*NAMES, SHUFFLED))
    parser.add_argument("--place", type=Path)
    parser.add_argument("--double", action="store_true")
    given = parser.parse_args(words)
    torch.set_num_threads(given.threads)
    if given.one:
        print(json.dumps(one(given.one, given.place, given.steps, given.double)))
        return
    lines = ["| what | measured |", "|---|---|"]
    for source in [*given.sources, *(f"hf://{name}" for name in HUB if given.hub)]:
        lines.append(compare(source, given.lines))
        print(lines[-1], flush=True)
    lines += fine_tuning(given) if given.rounds else []
    text = "\n".join(lines)
    print(text)
    if given.write:
        command = f"python -m benchmarks.published {' '.join(words or sys.argv[1:])}".strip()
        PAGE.write_text(f"# Published models\n\n```text\n{command}\n```\n\n{text}\n", "utf-8")


if __name__ == "__main__":
    main()
