"""Each architecture of ``tfzoo architectures`` in, changed and out again, beside ``transformers``:

    python -m benchmarks.round_trip --write

A small random model of the published class and a tokenizer of its family are saved by
``save_pretrained``. ``tfzoo import`` makes a run of the folder, ``tfzoo fit --from`` fine-tunes it
for two steps, ``tfzoo export --to transformers`` writes the result, and ``transformers`` loads it.
Names of architectures choose among them; ``--write`` writes benchmarks/round_trip.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from torch import nn

import tfzoo
from benchmarks.architectures import PEERS, difference
from tests.published_folders import LINES, mixed_lines, save
from tfzoo.commands.main import main as tfzoo_command
from tfzoo.data.tokenizer import token_texts
from tfzoo.models.architectures import architecture, names
from tfzoo.tasks.language_modeling import LanguageModelingTask
from tfzoo.tasks.masked_language_modeling import MaskedLanguageModelingTask
from tfzoo.tasks.translation import TranslationTask

PAGE = Path(__file__).parent / "round_trip.md"
TOKENIZERS = {
    **dict.fromkeys(("bert", "distilbert", "modernbert", "fnet"), "bert"),
    "roberta": "roberta",
    **dict.fromkeys(("gpt2", "gptj", "gpt_neox", "gpt_oss"), "gpt2"),
    **dict.fromkeys(("llama", "qwen3", "gemma2", "olmo2"), "llama"),
    **dict.fromkeys(("t5", "t5_v1_1"), "t5"),
    **dict.fromkeys(("marian", "bart"), "marian"),
}
"""The family of tokenizers of each."""
NEW_TOKENS = 12
PROMPTS = ["the dog", "a small cat"]
MASKED = ["the [MASK] sat on the mat", "a small [MASK]"]


# Texts of both ------------------------------------------------------------------------------------


def continued(task: LanguageModelingTask, peer: Any, tokenizer: Any) -> tuple[list[str], list[str]]:
    """Greedy continuations of prompts, tfzoo's and the peer's."""
    theirs = []
    for text in PROMPTS:
        ids = tokenizer(text, return_tensors="pt").input_ids
        found = peer.generate(input_ids=ids, max_new_tokens=NEW_TOKENS, do_sample=False)
        new = tokenizer.decode(found[0][ids.shape[1] :], skip_special_tokens=True)
        theirs.append(new.replace("\n", " ").replace("\r", " "))
    return task.continuations(PROMPTS, max_new_tokens=NEW_TOKENS), theirs


def translated(task: TranslationTask, peer: Any, tokenizer: Any) -> tuple[list[str], list[str]]:
    """Greedy translations."""
    theirs = []
    for text in LINES:
        ids = tokenizer(text, return_tensors="pt").input_ids
        found = peer.generate(
            input_ids=ids,
            max_new_tokens=2 * ids.shape[1] + 10,  # as tfzoo's search
            do_sample=False,
            num_beams=1,
            bad_words_ids=[[peer.config.decoder_start_token_id]],  # tfzoo writes no padding
            use_cache=False,
        )
        theirs.append(tokenizer.decode(found[0], skip_special_tokens=True))
    return task.translate(LINES, beam=1), theirs


def filled(
    task: MaskedLanguageModelingTask, peer: Any, tokenizer: Any
) -> tuple[list[str], list[str]]:
    """The most probable token in place of a mask."""
    theirs = []
    for text in MASKED:
        text = text.replace("[MASK]", tokenizer.mask_token)
        ids = tokenizer(text, return_tensors="pt").input_ids
        logits = peer(input_ids=ids).logits[ids == tokenizer.mask_token_id][0]
        logits[list(task.tokenizer.special.every)] = float("-inf")
        (found,) = token_texts(task.tokenizer.tokenizer, [int(logits.argmax())])
        theirs.append(found.strip() or found)
    return [next(iter(one.masks[0])) for one in task.fill(MASKED)], theirs


@dataclass(frozen=True)
class Way:
    """How the models of one class are applied and fine-tuned: their task, what writes texts, the
    recipe, and the head and the rows of its table.
    """

    task: Any
    texts: Callable[[Any, Any, Any], tuple[list[str], list[str]]]
    recipe: str
    head: str
    rows: Sequence[str]


WAYS = {
    "LanguageModel": Way(LanguageModelingTask, continued, "language_modeling/files", "text", LINES),
    "MaskedLanguageModel": Way(
        MaskedLanguageModelingTask, filled, "masked_language_modeling/files", "text", LINES
    ),
    "Transformer": Way(
        TranslationTask,
        translated,
        "translation/files",
        "en\tde",
        [f"{line}\t{line}" for line in LINES],
    ),
}


# In, changed and out ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What one architecture gave. ``logits`` and ``exported`` are largest differences as a share of
    the largest logit, ``moved`` is the largest change of a parameter by two steps.
    """

    logits: float
    same_texts: bool
    same_ids: bool
    moved: float
    exported: float


def config_of(name: str) -> dict[str, Any]:
    """Of the peer, for texts of up to 256 tokens."""
    config = dict(PEERS[name].config)
    for key in ("max_position_embeddings", "n_positions"):
        if key in config:
            config[key] = 256 + (2 if name == "roberta" else 0)
    start = {"t5": 0, "marian": 2}.get(TOKENIZERS[name])
    return {**config, "decoder_start_token_id": start, "forced_eos_token_id": None}


def command(*words: str | Path) -> None:
    """One of tfzoo's, which must end well; what it prints is shown if it does not."""
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = tfzoo_command([str(one) for one in words])
    if code:
        raise SystemExit(f"tfzoo {' '.join(map(str, words))}:\n{said.getvalue()[-3000:]}")


@torch.no_grad()
def logits_apart(model: Any, peer: Any, tokenizer: Any) -> float:
    """The largest difference for :data:`LINES`, read one by one."""
    worst = 0.0
    for line in LINES:
        ids = tokenizer(line, return_tensors="pt").input_ids
        pair = isinstance(model, tfzoo.Transformer)
        theirs = peer(input_ids=ids, **({"decoder_input_ids": ids} if pair else {})).logits
        worst = max(worst, difference(model(*([ids, ids] if pair else [ids])), theirs))
    return worst


@torch.no_grad()
def compare(name: str, count: int) -> Row:
    """All of one architecture; ids are those of ``count`` lines."""
    found = architecture(name)
    way = WAYS[found.model]
    with TemporaryDirectory() as folder:
        place = Path(folder)
        there, run, tuned, back = (place / one for one in ("there", "run", "tuned", "back"))
        peer, tokenizer = save(TOKENIZERS[name], found.transformers, config_of(name), there)
        if name == "t5_v1_1":  # its checkpoints untie what the constructor ties
            peer.lm_head.weight = nn.Parameter(torch.randn_like(peer.lm_head.weight))
            peer.save_pretrained(there)
        command("import", there, "--run", run)
        task = way.task.load(run)
        logits = logits_apart(task.model, peer, tokenizer)
        ours, theirs = way.texts(task, peer, tokenizer)
        lines = mixed_lines(count)
        own = getattr(task.tokenizer, "tokenizer", None) or task.tokenizer.source
        same_ids = own.encode(lines) == tokenizer(lines, add_special_tokens=False).input_ids
        fine_tune(way, there, tuned)
        again = way.task.load(tuned)
        command("export", tuned, "--to", "transformers", "--output", back)
        cls = getattr(transformers, found.transformers)
        eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
        loaded = cls.from_pretrained(back, **eager).eval()
        exported = logits_apart(again.model, loaded, tokenizer)
        before, after = (dict(one.model.named_parameters()) for one in (task, again))
        moved = max((after[key] - one).abs().max().item() for key, one in before.items())
    return Row(logits, ours == theirs, same_ids, moved, exported)


def fine_tune(way: Way, there: Path, run: Path) -> None:
    """Two steps of ``tfzoo fit``."""
    table = there.parent / "train.tsv"
    table.write_text("\n".join([way.head, *way.rows * 8]) + "\n", "utf-8")
    steps = ("--trainer.max_steps", "2", "--trainer.val_check_interval", "2")
    where = ("--trainer.accelerator", "cpu", "--trainer.devices", "1")
    data = ("--data.train", table, "--optim.schedule.warmup", "1")
    command("fit", way.recipe, "--from", there, "--run", run, *data, *steps, *where)


def table(rows: Mapping[str, Row]) -> str:
    """Of Markdown."""
    lines = [
        "| architecture | class | logits | texts | ids | two steps | exported |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        texts, ids = ("equal" if one else "differ" for one in (row.same_texts, row.same_ids))
        numbers = f"{texts} | {ids} | {row.moved:.1e} | {row.exported:.1e}"
        cls = architecture(name).transformers
        lines.append(f"| `{name}` | `{cls}` | {row.logits:.1e} | {numbers} |")
    return "\n".join(lines)


TEXT = """\
# In, changed and out again

```text
python -m benchmarks.round_trip --write
```

A small random model of each published class, in fp32, with a tokenizer of its family, beside
`transformers` {version}. `logits`: after `tfzoo import`, the largest difference as a share of the
largest logit. `texts`: greedy continuations and translations, or the tokens filled into masks.
`ids`: of {count:,} lines in four scripts and more. `two steps`: the largest change of a parameter
by `tfzoo fit --from` of two steps. `exported`: the logits of the fine-tuned model beside those of
what `transformers` loads after `tfzoo export --to transformers`. `vaswani2017` has no class in
`transformers`.

{table}
"""


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into benchmarks/round_trip.md")
    parser.add_argument("--lines", type=int, default=10_000, help="whose ids are compared")
    parser.add_argument("names", nargs="*", help="architectures; all by default")
    given = parser.parse_args(words)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    rows = {}
    for name in given.names or [one for one in names() if architecture(one).transformers]:
        rows[name] = compare(name, given.lines)
        print(table({name: rows[name]}).splitlines()[-1], flush=True)
    if given.write:
        content = TEXT.format(
            version=transformers.__version__, count=given.lines, table=table(rows)
        )
        PAGE.write_text(content, "utf-8")


if __name__ == "__main__":
    main()
