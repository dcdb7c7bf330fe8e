"""Train on Multi30k beside a loop around `transformers`' MarianMTModel: same tokenizer, batches,
schedule and seconds, one thread each.

    python benchmarks/multi30k.py --root FOLDER --minutes 30 --seed 1     # prints a table: BLEU of
    each at each validation

Both validate every two minutes, greedily, on the same 1,014 sentences, and the time that takes is
counted. Ours is the recipe, limited by time in place of steps; theirs has the recipe's width, depth
and vocabulary.
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

import torch
import yaml
from marian import PAD, marian, their_logits

import tfzoo
from tfzoo.learning.translation_scores import CorpusScores

EVERY = 120  # seconds between validations
CHECK = re.compile(
    r"^ +(\d+) s  step .*?val/bleu ([\d.]+)", re.MULTILINE
)  # as the command line prints them


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=Path, help="a new folder in which our run is kept")
    options = parser.parse_args()
    seconds = int(options.minutes * 60)
    limit = f"00:{seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}"
    with tempfile.TemporaryDirectory() as folder:
        run = options.run or Path(folder) / "run"
        command = [
            sys.executable,
            "-m",
            "tfzoo",
            "fit",
            "translation/multi30k",
            "--run",
            str(run),
            "--seed",
            str(options.seed),
        ]
        command += ["--data.root", options.root, "--trainer.max_time", limit]
        command += ["--trainer.max_steps", "-1", "--trainer.max_epochs", "-1"]
        command += ["--trainer.val_check_interval", "00:00:02:00"]
        log = Path(folder) / "log"
        with log.open("w") as out:
            ours = subprocess.Popen(
                command,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            try:
                theirs = train_marian(options.root, seconds, options.seed)
            finally:
                ours.wait()
        if ours.returncode:
            sys.exit(log.read_text()[-2000:])
        checks = [(int(at), float(score)) for at, score in CHECK.findall(log.read_text())]
    print(
        f"seed {options.seed}\n\n| tfzoo: seconds | BLEU | MarianMT: seconds | BLEU "
        "|\n|---|---|---|---|"
    )
    for one, other in zip_longest(checks, theirs, fillvalue=("", "")):
        print(f"| {one[0]} | {one[1]} | {other[0]} | {other[1]} |")


def train_marian(root: str, seconds: int, seed: int) -> list[tuple[int, float]]:
    """A plain loop, as one writes it: BLEU after every two minutes."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    recipe = yaml.safe_load(
        (Path(__file__).parent.parent / "recipes/translation/multi30k.yaml").read_text()
    )
    model_options, optim = recipe["model"], tfzoo.Optim(**recipe["optim"])
    began = time.perf_counter()
    data = tfzoo.TranslationData(**{**recipe["data"], "root": root, "seed": seed})
    data.prepare_data()
    data.setup()
    sizes = (
        len(data.tokenizers.target),
        model_options["dim"],
        model_options["heads"],
        model_options["layers"],
    )
    model = marian(
        *sizes, dropout=model_options["dropout"], hidden=model_options["feedforward"]["hidden"]
    )
    print(f"MarianMT: {sum(p.numel() for p in model.parameters()):,} parameters", file=sys.stderr)
    configured = optim.configure(model.parameters(), max_steps=2**31)
    optimizer, scheduler = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    scores: list[tuple[int, float]] = []
    loader, epoch = data.train_dataloader(), 0
    while True:
        loader.batch_sampler.set_epoch(epoch)
        epoch += 1
        for batch in loader:
            if time.perf_counter() - began >= EVERY * (len(scores) + 1):
                score = round(bleu(model, data), 1)
                scores.append((round(time.perf_counter() - began), score))
                print(f"MarianMT: {scores[-1][0]} s, epoch {epoch}, BLEU {score}", file=sys.stderr)
                if time.perf_counter() - began >= seconds:
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
    scores = CorpusScores(data.tokenizers.target_language)
    for batch in data.val_dataloader():
        longest = 2 * batch.source.shape[1] + 10
        found = model.generate(
            batch.source,
            attention_mask=batch.source != PAD,
            num_beams=1,
            do_sample=False,
            max_new_tokens=longest,
        )
        scores.update(data.tokenizers.target.decode(found.tolist()), batch.target_text)
    return float(scores.compute()["bleu"])


if __name__ == "__main__":
    main()
