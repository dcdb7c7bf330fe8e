"""Train on Multi30k beside a loop around `transformers`' MarianMTModel: same tokenizer, batches,
schedule and seconds, one thread each.

    python benchmarks/multi30k.py --root FOLDER --minutes 30 --seed 1     # prints a table: BLEU of
    each at each validation

Both at once. Both validate every two minutes (`--every`) and at the end, greedily, on the same
1,014 sentences, and the time that takes is counted. The table has the seconds of the CPU that each
has had, without imports and the preparation of text, for on a busy machine the clock says little.
Ours is the recipe, limited by time in place of steps; theirs has the recipe's width, depth and
vocabulary, and as many weights in a feed-forward layer. Needs Linux.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from itertools import zip_longest
from pathlib import Path
from threading import Thread

import torch
import yaml
from marian import PAD, marian, their_logits

import tfzoo
from tfzoo.tasks.translation import corpus_scores, line_counts

RECIPE = Path(__file__).resolve().parents[1] / "recipes/translation/multi30k.yaml"
CHECK = re.compile(r"[\d:]+  step [\d,]+  val  bleu ([\d.]+)")  # as the command line prints them


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=int, default=120, help="seconds between validations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=Path, help="a new folder in which our run is kept")
    options = parser.parse_args()
    seconds = int(options.minutes * 60)
    recipe = yaml.safe_load(RECIPE.read_text("utf-8"))
    data = tfzoo.TranslationData(**{**recipe["data"], "root": options.root, "seed": options.seed})
    data.prepare_data()
    data.setup()
    with tempfile.TemporaryDirectory() as folder:
        run = options.run or Path(folder) / "run"
        command = [sys.executable, "-m", "tfzoo", "fit", "translation/multi30k"]
        command += ["--run", str(run), "--seed", str(options.seed)]
        command += ["--data.root", options.root, "--trainer.max_time", lightning(seconds)]
        command += ["--trainer.max_steps", "-1", "--trainer.max_epochs", "-1"]
        command += ["--trainer.val_check_interval", lightning(options.every)]
        ours = subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        checks: list[tuple[int, float]] = []
        reader = Thread(target=follow, args=(ours, checks))
        reader.start()
        theirs = train_marian(data, seconds, options.every, options.seed)
        reader.join()
    if ours.wait():
        sys.exit("tfzoo failed")
    print(
        f"seed {options.seed}\n\n| tfzoo: seconds of CPU | BLEU | MarianMT: seconds of CPU | BLEU "
        "|\n|---|---|---|---|"
    )
    for one, other in zip_longest(checks, theirs, fillvalue=("", "")):
        print(f"| {one[0]} | {one[1]} | {other[0]} | {other[1]} |")


def lightning(seconds: int) -> str:
    """As Lightning writes a time."""
    return f"00:{seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}"


def follow(ours: subprocess.Popen[str], checks: list[tuple[int, float]]) -> None:
    """Print what our training prints, and keep its scores with the seconds of its CPU so far."""
    begun = 0.0
    for line in ours.stdout or ():
        print(line, end="", file=sys.stderr, flush=True)
        ticks = Path(f"/proc/{ours.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        used = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        if line.startswith("model:"):
            begun = used
        if found := CHECK.match(line):
            checks.append((round(used - begun), round(float(found[1]), 1)))


def train_marian(
    data: tfzoo.TranslationData, seconds: int, every: int, seed: int
) -> list[tuple[int, float]]:
    """A plain loop, as one writes it: BLEU after every so many seconds, and at the end."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    recipe = yaml.safe_load(RECIPE.read_text("utf-8"))
    model_options, optim = recipe["model"], tfzoo.Optim(**recipe["optim"])
    checked = began = time.perf_counter()
    used = time.process_time()
    sizes = (
        len(data.tokenizers.target),
        model_options["dim"],
        model_options["heads"],
        model_options["layers"],
    )
    hidden = model_options["feedforward"]["hidden"] * 3 // 2  # two matrices in place of three
    model = marian(*sizes, dropout=model_options["dropout"], hidden=hidden)
    print(f"MarianMT: {sum(p.numel() for p in model.parameters()):,} parameters", file=sys.stderr)
    configured = optim.configure(model, max_steps=2**31)
    optimizer, scheduler = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    scores: list[tuple[int, float]] = []
    loader, epoch = data.train_dataloader(), 0
    while True:
        loader.sampler.set_epoch(epoch)
        epoch += 1
        for batch in loader:
            now = time.perf_counter()
            over = now - began >= seconds
            if over or now - checked >= every:
                score = round(bleu(model, data), 1)
                checked = time.perf_counter()
                scores.append((round(time.process_time() - used), score))
                print(f"MarianMT: {scores[-1][0]} s, epoch {epoch}, BLEU {score}", file=sys.stderr)
                if over:
                    return scores
            model.train()
            logits = their_logits(model, batch.source, batch.target)
            wanted = batch.target[:, 1:].masked_fill(batch.target[:, 1:] == PAD, -100)
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), wanted.flatten(), label_smoothing=optim.label_smoothing
            )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(
                model.parameters(), recipe["trainer"]["gradient_clip_val"]
            )
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()


@torch.no_grad()
def bleu(model, data) -> float:
    model.eval()
    hypotheses: list[str] = []
    references: list[str] = []
    for batch in data.val_dataloader():
        longest = 2 * batch.source.shape[1] + 10
        found = model.generate(
            batch.source,
            attention_mask=batch.source != PAD,
            num_beams=1,
            do_sample=False,
            max_new_tokens=longest,
        )
        hypotheses += data.tokenizers.target.decode(found.tolist())
        references += batch.target_text
    language = data.tokenizers.target_language
    counts = line_counts(language, hypotheses, references)
    return float(corpus_scores(language, *counts)["bleu"])


if __name__ == "__main__":
    main()
