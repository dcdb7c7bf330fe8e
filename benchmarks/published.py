"""Published models beside ``transformers``: what they compute, and the losses of their fine-tuning.

    python -m benchmarks.published                     # needs no network: a small random BERT
    python -m benchmarks.published SOURCE ...          # folders, or hf://owner/name

Each SOURCE is imported, and its logits, or without a head its hidden states, and the ids of 4,000
lines (``--lines``) are compared with those of ``transformers``; of a folder without ``config.json``
the ids alone. Then BERT is fine-tuned by tfzoo and by ``transformers.Trainer``, from the same
weights, with the same batches in the same order, without dropout: the largest difference of the
losses of 20 steps, in fp32 and in float64. Which is faster: benchmarks/host.py.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

PAGE = Path(__file__).parent / "published.md"
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

    from tfzoo.runs import checkpoints, pretrained

    folder = (
        Path(source) if Path(source).is_dir() else checkpoints.find(pretrained.place_of(source))
    )
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
    from tfzoo.data.tokenizer import found_in, restored
    from tfzoo.data.tokenizers import LINE_ENDS

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


def configured(place: Path) -> Any:
    """The configuration of the fine-tuning."""
    from tfzoo.config.config import Config
    from tfzoo.config.recipe import load_recipe, parse_options
    from tfzoo.training.start import begin

    start = parse_options(["--from", str(place / "bert")])
    return Config.parse(*begin(load_recipe(str(place / "recipe.yaml")), start))


def prepare(place: Path, dim: int, layers: int, rows: int, tokens: int) -> None:
    """A random BERT that classifies, its tokenizer, a recipe, and the batches of its training."""
    from tests.published_folders import LINES, save

    sizes = {"num_hidden_layers": layers, "num_attention_heads": max(2, dim // 64)}
    sizes |= {"hidden_size": dim, "intermediate_size": 4 * dim, "max_position_embeddings": 256}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = {**sizes, **dropout, "id2label": {0: "0", 1: "1"}}
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
    data = configured(place).make_data()
    data.prepare_data()
    data.setup("fit")
    batches = [(one.tokens, one.label) for one in data.train_dataloader()]
    torch.save(batches, place / "batches.pt")


def ours(place: Path, steps: int, double: bool) -> list[float]:
    """By tfzoo, as ``tfzoo fit`` trains: with its imports and its memory."""
    from tfzoo.base.loading import task_class

    task_class("classification")

    import lightning.pytorch as L

    from tfzoo.base.memory import keep_freed_memory
    from tfzoo.training.start import load
    from tfzoo.training.train import ready

    keep_freed_memory()
    config = configured(place)
    _, task, data = ready(config, None, [])
    assert config.start is not None  # --from
    load(config.start.run, task)
    config.start.run.forget()
    losses: list[float] = []

    class Record(L.Callback):
        def on_train_batch_end(self, *given: Any) -> None:
            _, _, outputs, batch, _ = given
            losses.append(outputs["loss"].item() / len(batch.label))

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
    return losses


def theirs(place: Path, steps: int, double: bool) -> list[float]:
    """By ``transformers.Trainer``, which imports nothing of tfzoo."""
    import transformers
    from torch.utils.data import DataLoader

    model = transformers.BertForSequenceClassification.from_pretrained(place / "bert")
    batches = [
        {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": label}
        for ids, label in torch.load(place / "batches.pt")
    ]
    losses: list[float] = []

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            return DataLoader(batches, batch_size=None)  # type: ignore[arg-type]  # a list

        def training_step(self, *given: Any, **named: Any) -> Any:
            loss = super().training_step(*given, **named)
            losses.append(loss.item())
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
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", help="folders, or hf://owner/name")
    parser.add_argument("--lines", type=int, default=4000, help="whose ids are compared")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rows", type=int, default=4000)
    given = parser.parse_args()
    print("| what | measured |", "|---|---|", sep="\n")
    for source in given.sources:
        print(compare(source, given.lines), flush=True)
    with TemporaryDirectory() as place:
        prepare(Path(place), given.dim, given.layers, given.rows, tokens=2048)
        for kind, double in (("fp32", False), ("float64", True)):
            found = (train(Path(place), STEPS, double) for train in (ours, theirs))
            worst = max(abs(a - b) for a, b in zip(*found, strict=True))
            print(f"| losses of {STEPS} steps, {kind} | {worst:.1e} apart |", flush=True)


if __name__ == "__main__":
    main()
