"""``tfzoo plot`` draws runs and parts, or says in one line why not."""

import pytest

from tests.plots.test_curves import make
from tfzoo.commands.main import main


@pytest.fixture
def here(own_folder):
    make(own_folder / "runs/numbers/1")
    make(own_folder / "runs/numbers/2")
    make(own_folder / "position")
    (own_folder / "norms").mkdir()
    (own_folder / "norms/sweep.yaml").touch()
    return own_folder


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("runs/numbers/1", "runs/numbers/1/curves.png"),
        ("runs/numbers/1 runs/numbers/2", "curves.png"),
        ("./position --metric val/loss --output loss.svg", "loss.svg"),
        ("position rotary --position.base 500000 --dim 8 --length 9", "position_rotary.png"),
        ("position alibi --heads=2 --length 9 --causal --output a.PDF", "a.PDF"),
    ],
)
def test_a_picture_is_written_and_its_path_printed(words, file, here, capsys):
    assert main(["plot", *words.split()]) == 0
    assert capsys.readouterr() == (f"{file}\n", "")
    written = (here / file).read_bytes()
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert written.startswith(starts[file.rpartition(".")[2].lower()])
    if file.endswith("svg"):
        assert main(["plot", *words.split()]) == 0
        assert (here / file).read_bytes() == written, "the same picture is the same file"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "WHAT is missing"),
        ("runs/numbers/3", "no run at runs/numbers/3. Runs there are: runs/numbers/2"),
        ("norm rms", "no run at norm"),
        ("position", "plot position needs one name"),
        ("position none", "position 'none' does nothing at any position: nothing to draw"),
        ("position rotary --position.bas 3", "Did you mean 'base'?"),
        ("position rotary --position.base", "--position.base needs a value"),
        ("position rotary --dim 0", "dim=0 must be a whole number at least 1"),
        ("position rotary --metric val/loss", "--metric is nothing of tfzoo plot position"),
        ("norms", "norms is the folder of a sweep, drawn by tfzoo report norms"),
        ("runs/numbers/1 --causal", "--causal is nothing of tfzoo plot runs/numbers/1"),
        ("runs/numbers/1 --output a.gif", "a.gif: the file's suffix chooses its format: .png,"),
        ("position alibi --output position/metrics.csv/a.png", "cannot write position/metrics.csv"),
    ],
)
def test_a_mistake_is_one_line(words, message, here, capsys):
    assert main(["plot", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
    assert len(err.splitlines()) == 1
    assert not list(here.glob("*.*"))
