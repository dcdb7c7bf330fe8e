"""The page of a sweep, as a browser without a network shows it."""

import base64
import html
import re
import shutil

import pytest
import yaml

from tests.browser import opened
from tests.sweep.made import LEAKY, make
from tfzoo.errors import BadRun, UnknownName
from tfzoo.sweep.report import figures
from tfzoo.sweep.report.files import publish
from tfzoo.sweep.report.results import gather

EVIL = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = make(tmp_path_factory.mktemp("sweep") / "norms")
    publish(gather(made))
    return made


def test_the_least_sweep_file_has_a_report(tmp_path):
    made = make(tmp_path / "norms")
    file = yaml.safe_load((made / "sweep.yaml").read_text("utf-8"))
    least = {key: file[key] for key in ("recipe", "axes", "seeds", "metric")}
    (made / "sweep.yaml").write_text(yaml.safe_dump(least), "utf-8")
    publish(gather(made))
    assert all((made / name).is_file() for name in ("runs.csv", "report.html", "report.md"))


def test_the_page_opens_without_errors_and_shows_every_cell_and_picture(browser, folder):
    page, said = opened(browser, folder / "report.html")
    assert said == []
    rows = page.locator("section table tbody tr")
    shown = {tuple(row.locator("td").all_inner_texts()[:2]) for row in rows.all()}
    assert shown == {tuple(cell.labels.values()) for cell in gather(folder).cells}
    assert page.locator("section img").count() == 1, "one table and one picture"
    assert page.locator("section table").count() == 1
    assert page.locator("details[open]").count() == 0, "then details, folded away"
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.locator("details img").count() == 2
    text = page.inner_text("body")
    told = (LEAKY, "not finite in 10 steps", "tfzoo sweep norms.yaml --jobs 2", "AMD EPYC")
    for words in (*told, "torch 2.13.0+cpu", 'budget: {"steps": 300}'):
        assert words in text
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "a phone scrolls down only"
    page.close()


def test_the_table_of_cells_fits_1200_pixels_and_scrolls_in_a_smaller_window(browser, folder):
    page, _ = opened(browser, folder / "report.html")
    around = page.locator("section .scroll:has(table)")
    assert around.evaluate("e => e.scrollWidth") <= around.evaluate("e => e.clientWidth")
    page.set_viewport_size({"width": 700, "height": 900})
    assert around.evaluate("e => e.scrollWidth - e.clientWidth") > 50
    around.evaluate("e => e.scrollTo(9999, 0)")
    last = around.locator("tbody td").last.bounding_box()
    assert last["x"] + last["width"] <= 700, "the last column can be reached"
    page.close()


def test_curves_show_the_judged_metric_or_say_why_they_cannot(tmp_path):
    made = make(tmp_path / "norms", (1, 2), ("layer", "rms"), ("sinusoidal",))
    publish(gather(made))
    page = (made / "report.html").read_text("utf-8")
    assert "val/loss by training step, a line for each seed" in page
    for path in made.glob("*/*/metrics.csv"):
        lines = path.read_text("utf-8").splitlines(keepends=True)
        once = [line for line in lines[:-1] if not line.split(",")[3]]
        path.write_text("".join([lines[0], *once, lines[-1]]), "utf-8")
    publish(gather(made))
    page = (made / "report.html").read_text("utf-8")
    assert "train/loss by training step" in page
    assert "val/loss has no curve because runs validated at most once" in page
    assert "trainer.val_check_interval" in page


def test_curves_of_trained_weights_show_what_a_swap_costs_at_once(tmp_path, monkeypatch):
    made = make(tmp_path / "norms", (1, 2), ("layer", "rms"), ("sinusoidal",))
    for path in made.glob("*/*/metrics.csv"):
        first = 9.0 if "rms" in str(path) else 2.0
        path.write_text(f"step,val/loss\n0,{first}\n10,2.1\n20,2.0\n30,1.9\n", "utf-8")
    drawn = []
    monkeypatch.setattr(figures, "inline", lambda figure, label: drawn.append(figure) or "")
    results = gather(made)
    figures.curves(results, results.cells)
    low, high = drawn[0].axes[0].get_ylim()
    assert low < 1.9
    assert high > 9.0


def test_a_click_on_a_title_sorts_and_another_turns_it_round(browser, folder):
    page, said = opened(browser, folder / "report.html")
    titles = [title.strip() for title in page.locator("section table thead th").all_inner_texts()]
    column = titles.index("val/loss")
    head = page.locator("section table thead th").nth(column)
    button = page.locator("section table thead button").nth(column)

    def keys():
        return page.eval_on_selector_all(
            "section table tbody tr", f"rows => rows.map(row => row.cells[{column}].dataset.key)"
        )

    before = keys()
    assert head.get_attribute("aria-sort") is None
    button.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    numbers = sorted(float(key) for key in before if key)
    assert keys() == [*map(str, numbers), ""], "what has no score stays last"
    button.click()
    assert head.get_attribute("aria-sort") == "descending"
    assert keys() == [*map(str, numbers[::-1]), ""]
    page.locator("section table thead button").first.click()
    assert head.get_attribute("aria-sort") is None
    assert said == []
    page.close()


def test_what_comes_from_files_is_text_and_never_runs(browser, tmp_path):
    name = EVIL.replace("/", "\N{FRACTION SLASH}")
    made = make(tmp_path / "evil", (1, 2), ("layer", name), ("sinusoidal",))
    file = yaml.safe_load((made / "sweep.yaml").read_text("utf-8"))
    file |= {"claim": EVIL, "overrides": {"data.root": EVIL}}
    (made / "sweep.yaml").write_text(yaml.safe_dump(file), "utf-8")
    publish(gather(made))
    page, said = opened(browser, made / "report.html")
    assert page.title() == "evil: ablation of translation/numbers"
    assert said == []
    assert page.locator("script").count() == 1
    assert page.locator("img:not([src^='data:image/svg'])").count() == 0
    assert EVIL in page.inner_text(".claim")
    page.close()
    assert "<script" not in (made / "report.md").read_text("utf-8")


def test_the_page_holds_everything_itself_and_lets_no_other_script_run(folder):
    text = (folder / "report.html").read_text("utf-8")
    assert not re.findall(r"(?:src|href)=\"(?!runs\.csv|data:)", text)
    assert "default-src 'none'" in html.unescape(text)
    assert "unsafe" not in text
    assert "://" not in text
    assert len(text) < 700_000


def test_pictures_of_many_cells_show_the_best_ones_and_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "MAX_CELLS", 4)
    made = make(tmp_path / "many")
    publish(gather(made))
    text = (made / "report.html").read_text("utf-8")
    assert "Learning curves (the baseline and the best 3)" in text
    curves = text.partition("Learning curves (")[2]
    means = {one.title: one.judged[0].mean for one in gather(made).cells if not one.refused}
    best = sorted(means, key=lambda title: means[title])[:3]
    shown = base64.b64decode(re.findall(r"base64,([^\"]*)", curves)[0]).decode()
    drawn = {title for title in means if f"<!-- {title} -->" in shown}
    assert drawn == {"layer, sinusoidal", *best}


def test_a_picture_of_a_grid_tells_averages_from_cells(folder):
    drawn = base64.b64decode(
        re.findall(r"base64,([^\"]*)", (folder / "report.html").read_text("utf-8"))[0]
    ).decode()
    for name in ("position rotary", "position rotary, on average"):
        assert drawn.count(f"<!-- {name} -->") == 1


def test_the_text_says_what_the_page_does(folder):
    text = (folder / "report.md").read_text("utf-8")
    results = gather(folder)
    for verdicts in results.verdicts:
        assert all(one.sentence in text for one in verdicts.axes if one.verdict != "baseline")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    cells = [line for line in tables if line.startswith(("| layer |", "| rms |", "| batch |"))]
    assert len(cells) == len(results.cells)
    assert "refused: norm batch, position rotary: norm 'batch' sees the future" in text
    assert "p < 0." in text, "as it is read: a sign before a number opens no markup"
    assert "&lt;" not in text


def test_the_terminal_shows_the_answer_then_a_table_then_each_reason_once(folder, capsys):
    publish(gather(folder))
    answer, table, *details = capsys.readouterr().out.split("\n\n")
    assert len(answer.splitlines()) == 5
    head, *rows = table.splitlines()
    columns = "norm position Runs val/loss Difference (95 % CI), p after Holm"
    assert " ".join(head.split()) == columns
    assert [" ".join(row.split()[:2]) for row in rows] == [
        " ".join(cell.labels.values()) for cell in gather(folder).cells
    ]
    assert "4/5 (1 missing)" in table
    for reason in (LEAKY, "loss or gradient was not finite in 10 steps", "not started, or not"):
        assert "\n".join(details).count(reason) == 1


def test_p_of_a_sweep_with_looks_is_called_sequential(tmp_path):
    made = make(tmp_path / "norms", (1, 2, 3), ("layer", "rms"), ("sinusoidal",))
    for looks, said in (([3, 5], "sequential p after Holm"), ([], "p after Holm")):
        file = yaml.safe_load((made / "sweep.yaml").read_text("utf-8"))
        (made / "sweep.yaml").write_text(yaml.safe_dump({**file, "looks": looks}), "utf-8")
        (made / "judged.json").unlink(missing_ok=True)
        publish(gather(made))
        text = (made / "report.md").read_text("utf-8")
        assert f"Difference (95 % CI), {said}" in text


def test_a_sweep_of_which_nothing_is_done_yet_has_a_report(tmp_path):
    made = make(tmp_path / "begun")
    for path in made.glob("*/seed-*"):
        shutil.rmtree(path)
    publish(gather(made))
    text = (made / "report.md").read_text("utf-8")
    assert "0 of 55 completed, 55 missing; 1 cell refused" in text


NORMS, POSITIONS = ("layer", "rms"), ("sinusoidal", "rotary")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return make(tmp_path_factory.mktemp("here") / "norms", (1, 2, 3), NORMS, POSITIONS)


def started(folder, seed, **model):
    """Writes the recipe of a run."""
    recipe = {"seed": seed, "model": {"dim": 16, **model}, "optim": {"lr": 0.1 * seed}}
    text = yaml.safe_dump({**recipe, "data": {"root": str(folder)}})
    (folder / f"norm=rms,position=rotary/seed-{seed}/config.yaml").write_text(text, "utf-8")


def tuned(folder, *values):
    """Lets a sweep tune the learning rate."""
    file = yaml.safe_load((folder / "sweep.yaml").read_text("utf-8"))
    tune = {"key": "optim.lr", "values": [*values]}
    (folder / "sweep.yaml").write_text(yaml.safe_dump({**file, "tune": tune}), "utf-8")


def test_a_repeat_has_other_seeds_the_same_cells_and_the_same_recipe(first, tmp_path):
    with pytest.raises(BadRun, match="seed 3 in both folders: a repeat has other seeds"):
        gather(first, None, make(tmp_path / "three", (3, 4, 5), NORMS, POSITIONS))
    with pytest.raises(BadRun, match="cell norm=rms,position=rotary is there in one, missing in"):
        gather(first, None, make(tmp_path / "fewer", (4, 5), NORMS[:1], POSITIONS))
    one = make(tmp_path / "one", (1, 2, 3), NORMS, POSITIONS)
    other = make(tmp_path / "other", (4, 5), NORMS, POSITIONS)
    tuned(one, 0.1, 0.4)
    tuned(other, 0.1, 0.4)
    started(one, 2)
    started(other, 5)
    assert gather(one, None, other).repeats
    tuned(other, 0.2, 0.4)
    with pytest.raises(BadRun, match=r"tune is optim.lr among \[0.1, 0.4\] in one, .*\[0.2, 0.4\]"):
        gather(one, None, other)
    tuned(other, 0.1, 0.4)
    started(other, 5, dim=512)
    with pytest.raises(BadRun, match=r"position=rotary, model\.dim is 16 in one, 512 in the other"):
        gather(one, None, other)


def test_another_metric_is_judged_in_its_direction(first):
    modes = {"test/loss": "min", "val/exact_match": "max", "peak_memory": "min"}
    for name, mode in {**modes, "tokens_per_second": "max"}.items():
        (verdicts,) = gather(first, name).verdicts
        assert (verdicts.metric, verdicts.mode) == (name, mode)
    assert [(one.metric, one.mode) for one in gather(first).verdicts] == [
        ("val/loss", "min"),
        ("test/long/exact_match", "max"),
    ]
    with pytest.raises(UnknownName, match=r"no metric named 'val/los'\. Did you mean 'val/loss'\?"):
        gather(first, "val/los")
