"""Python and commands of the pages run, print what they say, and links lead somewhere."""

import io
import re
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.ablations import SWEEPS
from tests import forked
from tests.daily import sampled
from tests.docs.pages import PAGES, ROOT, TRANSLATED, blocks, commands, run
from tests.sweep.made import make
from tfzoo.base.registry import describe
from tfzoo.commands.main import main
from tfzoo.config.recipe import packaged

TINY = (
    *("--data.dataset.train", "200", "--data.dataset.val", "4", "--data.dataset.test", "4"),
    *("--model.dim", "16", "--model.layers", "1", "--model.heads", "2"),
    *("--trainer.max_steps", "2", "--trainer.accelerator", "cpu", "--trainer.devices", "1"),
)
OF_A_RUN = ("validate", "test", "predict", "translate", "classify", "attention", "serve")
SLOW = ("docs/cost.md", "docs/export.md", "docs/ideas/scale.md", "docs/plots.md")
"""Pages whose commands count whole models or export to ONNX, which takes many seconds: tested
nightly. The commands are tested by day, on small models, in tests/costs and tests/exporting.
"""
PLUGIN = "soft_capped"
"""The component of docs/own-components.md; tests/plugin installs it and gives these commands."""


DAILY = [page for page in PAGES if page not in SLOW]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the README's runs, of two steps, and sweeps with their repeats."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        short = ["--data.dataset.long", "4", "--search.max_length", "0.1"]
        assert main(["fit", "translation/numbers", *TINY, *short]) == 0
        assert main(["fit", "classification/listops", *TINY]) == 0
    shutil.copytree(folder / "runs/numbers/1", folder / "runs/numbers/2")
    shutil.copytree(folder / "runs/numbers/1", folder / "runs/sparsemax")
    make(folder / "runs/position", (1, 2))
    make(folder / "runs/position_again", (3, 4))
    make(folder / "runs/small", (1, 2, 3))
    make(folder / "runs/small_again", (4, 5, 6))
    write_files_of_pages(folder)
    return folder


def write_files_of_pages(folder):
    """Some text, and each recipe of a page that begins with ``# NAME.yaml``."""
    (folder / "lines.txt").write_text("twenty plus two\n\nninety-nine\n", "utf-8")
    (folder / "small.yaml").write_text(
        next(block.text for block in blocks("docs/sweeps.md", "yaml")), "utf-8"
    )
    (folder / "norms.yaml").write_text(
        next(block.text for block in blocks("docs/swap.md", "yaml")), "utf-8"
    )
    (folder / "mine.py").write_text(
        next(block.text for block in blocks("docs/swap.md", "python") if "# mine.py" in block.text),
        "utf-8",
    )
    for block in (block for page in PAGES for block in blocks(page, "yaml")):
        if named := re.match(r"# ([\w-]+\.yaml)\n", block.text):
            (folder / named[1]).write_text(block.text, "utf-8")


@pytest.fixture
def here(trained, own_folder, monkeypatch):
    """A new working folder with a copy of them."""
    shutil.copytree(trained, own_folder, dirs_exist_ok=True)
    monkeypatch.setenv("WANDB_DIR", str(own_folder))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    return own_folder


@forked.requires_fork
@pytest.mark.parametrize(
    "page", sampled([page for page in PAGES if blocks(page, "python")], DAILY[::2])
)
def test_the_python_of_a_page_runs_as_written(page, here):
    for command in commands(page):
        if command.words[0] == "export":  # its Python reads what its commands write
            assert main(list(command.words)) == 0
    forked.call(run, page, fresh=True)


@pytest.mark.parametrize("page", sampled([page for page in PAGES if commands(page)], DAILY[1::2]))
def test_the_commands_of_a_page_work(page, here, capsys, monkeypatch):
    for command in commands(page):
        if PLUGIN in command.words:
            continue
        if command.words[0] == "serve":
            monkeypatch.setattr("tfzoo.serving.server.serve", lambda *_: None)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(command.stdin.encode())))
        capsys.readouterr()
        code = main(tried(command))
        printed = "".join(capsys.readouterr())
        refused = (command.printed or "").startswith("tfzoo: ")
        assert code == (2 if refused else 0), f"tfzoo {' '.join(command.words)}: {printed}"
        if command.printed is not None and (
            refused or command.words[0] in ("list", "show", "recipes", "--version")
        ):
            assert re.fullmatch(pattern(command.printed), tidy(printed)), (
                f"tfzoo {' '.join(command.words)} prints:\n{printed}"
            )


def tried(command):
    """A form that takes seconds: trainings are resolved, contract tests only found."""
    words = list(command.words)
    if (
        words[0] == "fit"
        and "--help" not in words
        and not (command.printed or "").startswith("tfzoo: ")
    ):
        return [*words, "--print_config"]
    if words[0] == "sweep":
        return [*words, "--dry-run"]
    if words[0] == "check":
        describe(*words[1:3])
        return ["check", "--help"]
    if words[0] == "serve":
        return [*words, "--port", "0"]
    if words[0] in OF_A_RUN:
        assert Path(words[1]).exists(), words
    return words


def tidy(text):
    return " ".join(text.split())


def pattern(printed):
    """``...`` stands for anything."""
    parts = re.split(r"^\.\.\.$", printed, flags=re.MULTILINE)
    return r"\s?.*\s?".join(re.escape(tidy(part)) for part in parts)


@pytest.mark.parametrize("page", [*PAGES, *TRANSLATED, "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text("utf-8")):
        if link.startswith("http"):
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page):
    """The fragments by which a page's headings are linked."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    if page.name == "ablations.md":  # which the site completes
        headings += [sweep.stem for sweep in SWEEPS.glob("*.yaml")]
    return [re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings]


def test_the_readme_begins_with_two_commands():
    first, second = (block.text.strip() for block in blocks("README.md", "sh")[:2])
    start = "python3 -m venv .venv && .venv/bin/pip install "
    assert first.startswith(f"{start}-c constraints.txt -e . && ")
    assert second.startswith(start)
    recipe = first.rpartition(".venv/bin/tfzoo fit ")[2]
    assert recipe in packaged()
    assert second in (ROOT / ".ci/run").read_text("utf-8").splitlines()


def test_the_page_on_own_components_is_the_package_that_is_tested():
    package = ROOT / "tests/plugin"
    texts = [block.text for block in blocks("docs/own-components.md")]
    files = sorted((package / "src/tfzoo_soft_capped").glob("[!_]*.py"))
    assert [file.name for file in files if file.read_text("utf-8") not in texts] == []
    points = [text for text in texts if "entry-points" in text]
    written = (package / "pyproject.toml").read_text("utf-8")
    assert [text for text in points if text not in written] == []
