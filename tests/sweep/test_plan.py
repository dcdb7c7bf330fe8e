import pytest
import yaml

from tests.sweep.files import AXES, sweep_file
from tfzoo.errors import TfzooError
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.plan.sweep_file import MAX_NAME_BYTES, combine, file_name, folder_name, label
from tfzoo.sweep.run.local import command
from tfzoo.sweep.run.state import planned_runs

RATES, SIZES = [n / 10 for n in range(1, 100)], [*range(99, 200)]


def refused(folder, **changes):
    with pytest.raises(TfzooError) as caught:
        load(sweep_file(folder, **changes))
    assert "\n" not in str(caught.value)
    assert caught.value.code == 2
    return str(caught.value)


def test_the_least_file_has_a_cell_for_each_value_and_the_first_is_the_baseline(tmp_path):
    plan = load(sweep_file(tmp_path, threads=None))
    assert [cell.name for cell in plan.cells] == ["norm=layer", "norm=rms"]
    settings = [cell.settings["model.norm"] for cell in plan.cells]
    assert settings == ["layer", "rms"]
    assert plan.baseline == {"model.norm": "layer"}
    assert plan.cells[1].recipes[""]["model"]["norm"] == "rms"
    assert (plan.threads, plan.devices, plan.budget.settings, plan.claim) == (None, None, {}, "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("task: translation", "a recipe, which a sweep varies, and no sweep: tfzoo fit"),
        ("sedes: [1]", "no key of a sweep named 'sedes'. Did you mean 'seeds'?"),
        ("model.norm: rms", "(a recipe's key: in overrides)"),
        ("recipe: null", "no recipe"),
        ("recipe: translation/number", "Did you mean 'translation/numbers'?"),
        ("seeds: [1, 1]", "each once"),
        ("seeds: three", "seeds must be list[int], not 'three'"),
        ("mode: gird", "mode must be 'grid' or 'one_at_a_time', not 'gird'"),
        ("baseline: {model.norm: rsm}", "for the baseline named 'rsm'. Did you mean 'rms'?"),
        ("baseline: {model.nrm: rms}", "no axis named 'model.nrm'. Did you mean 'model.norm'?"),
        ("axes: {norm: [layer]}", "norm: 'norm' is no key of a recipe, such as model.norm"),
        ("axes: {model.norm: [layer, layer]}", "axes: model.norm is a list of values of a dotted"),
        ("axes: {size: {a b: {}, a_b: {}}}", "would have the same folder"),
        ("axes: null", "a sweep needs axes (tfzoo sweep --help has an example)"),
        ("axes: {tuned: {a: {}, b: {}}}", "axes: tuned is the name of a column of runs.csv"),
        ("axes: {val/loss: {a: {}, b: {}}}", "axes: val/loss is the name of a column"),
        (
            "{overrides: {model.norm.eps: 1}, axes: {model.norm: [layer, {name: rms, eps: 2}]}}",
            "model.norm.eps is set by overrides and by model.norm",
        ),
        ("axes: {model.heads: [1, 2]}", "model.heads is set by overrides and by model.heads"),
        ("budget: {steps: 3}", "trainer.max_steps is set by overrides and by budget or devices"),
        ("budget: {time: 10 minutes}", "budget: time is hours, minutes and seconds such as '00:10"),
        ("overrides: {seed: 3}", "the seed is set by seeds"),
        ("threads: 0", "threads=0 must be a whole number at least 1"),
        ("metric: {name: val/loss}", "metric needs mode"),
        ("also: [{name: val/loss, mode: min}]", "each name once"),
        ("tune: {key: optim.lr, values: [0.001]}", "tune has two values or more"),
        ("tune: {key: optim.lr, values: [0.1, 0.2], seed: 1}", "a seed that is not among seeds"),
        (f"axes: {{optim.lr: {RATES}, data.max_tokens: {SIZES}}}", "more than 1000 cells"),
    ],
)
def test_a_slip_in_the_file_is_an_error_that_names_the_fix(tmp_path, changes, said):
    assert said in refused(tmp_path, **yaml.safe_load(changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            "overrides: {model.nrm: rms}",
            "tiny.yaml: model.nrm: model has no key 'nrm'. Did you mean",
        ),
        ("axes: {model.norm: [layer, rsm]}", "tiny.yaml: model.norm: no norm named 'rsm'. Did you"),
        ("axes: {model.norm: [layer, {name: rms, epz: 1}]}", "no option 'epz'. Did you mean 'eps'"),
        ("axes: {optim.lr: [0.1, fast]}", "optim.lr must be float, not 'fast'"),
        (
            "metric: {name: val/los, mode: min}",
            "no metric 'val/los' on this data. Did you mean 'val",
        ),
        ("metric: {name: val/loss, mode: max}", "val/loss is better the lower it is"),
        # BLEU is not computed for references under four words on average
        ("metric: {name: test/bleu, mode: max}", "no metric 'test/bleu' on this data"),
        ("also: [{name: test/longer/exact_match, mode: max}]", "mean 'test/long/exact_match'?"),
    ],
)
def test_so_is_one_in_a_key_of_the_recipe_or_in_a_metric(tmp_path, changes, said):
    assert said in refused(tmp_path, **yaml.safe_load(changes))


@pytest.mark.parametrize("order", [1, -1])
def test_an_option_holds_for_every_component_wherever_it_is_set(tmp_path, order):
    axes = {"model.norm": ["layer", "rms"], "model.norm.eps": [1e-5, 1e-2]}
    plan = load(sweep_file(tmp_path, axes=dict([*axes.items()][::order])))
    found = [cell.recipes[""]["model"]["norm"] for cell in plan.cells]
    pairs = [(norm, eps) for norm in ("layer", "rms") for eps in (1e-5, 1e-2)]
    assert sorted((one["name"], one["eps"]) for one in found) == pairs
    plan = load(sweep_file(tmp_path, overrides={"model.norm.eps": 1e-3}))
    found = [cell.recipes[""]["model"]["norm"] for cell in plan.cells]
    assert found == [{"name": one, "eps": 1e-3} for one in ("layer", "rms")]


def test_a_clash_is_a_refused_cell_with_its_reason(tmp_path):
    plan = load(sweep_file(tmp_path, axes={"model.norm": ["layer", "batch"]}))
    assert [bool(cell.refused) for cell in plan.cells] == [False, True]
    assert "norm 'batch' mixes tokens" in plan.cells[1].refused


@pytest.mark.parametrize(
    "overrides",
    [
        {"trust": "true"},
        {"config": "other.yaml"},
        {"run": "elsewhere"},
        {"model.norm=rms --trust": "x"},
        {"trainer.callbacks": [{"class_path": "os.system"}]},
        {"trainer.default_root_dir": "/elsewhere"},
        {"data.train": "https://example.org/text"},
        {"model.layers": 10**9},
    ],
)
def test_a_strangers_file_runs_no_code_and_reaches_nothing(tmp_path, overrides):
    refused(tmp_path, overrides=overrides)


def test_trust_lets_runs_have_a_logger_of_ones_own(tmp_path, monkeypatch):
    code = "from lightning.pytorch.loggers import CSVLogger\nclass Mine(CSVLogger): pass\n"
    (tmp_path / "own_logger.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    own = {"trainer.logger": "own_logger.Mine"}
    assert refused(tmp_path, overrides=own).endswith("the code it names: --trust")
    plan = load(sweep_file(tmp_path, overrides=own), trust=True)
    logger = plan.cells[0].recipes[""]["trainer"]["logger"]
    assert [one["class_path"] for one in logger] == ["own_logger.Mine"]
    run = planned_runs(plan, tmp_path)[0]
    assert "--trust" in command(run, plan)


def test_the_resolved_file_is_a_sweep_file_with_the_same_cells(tmp_path):
    axes = {**AXES, "width": {"one head": {"model.head_dim": 8}, "default": {}}}
    changes = {
        "tune": {"key": "optim.lr", "values": [1e-3, 2e-3]},
        "also": [{"name": "test/long/exact_match", "mode": "max"}],
    }
    plan = load(sweep_file(tmp_path, axes=axes, budget={"time": "00:10:00"}, devices=1, **changes))
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(plan.to_dict(), sort_keys=False))
    found = load(again)
    assert found.to_dict() == plan.to_dict()
    assert found.cells == plan.cells
    assert [found.fit_arguments(cell, "0.002") for cell in found.cells] == [
        plan.fit_arguments(cell, "0.002") for cell in plan.cells
    ]


def test_a_budget_is_the_same_for_all_cells(tmp_path):
    plan = load(sweep_file(tmp_path, budget={"tokens": 5000, "time": "01:00:00"}))
    for cell in plan.cells:
        assert cell.recipes[""]["train_tokens"] == 5000
        assert cell.recipes[""]["trainer"]["max_time"]
    assert plan.budget.seconds == 3600


LABELLED = {
    "model.norm": {"layer": {"model.norm": "layer"}, "rms": {"model.norm": "rms"}},
    "width": {
        "one head": {"model.heads": 1, "model.head_dim": 64},
        "four": {"model.heads": 4},
        "two": {"model.heads": 2},
    },
}


def test_a_label_is_what_a_person_would_write():
    values = ["rms", {"name": "rms", "eps": 1e-6}, 1e-3, 4, True, None, [0.9, 0.98]]
    written = ["rms", "rms eps=1e-06", "0.001", "4", "true", "null", "[0.9, 0.98]"]
    assert [label(value) for value in values] == written


def test_a_grid_has_all_combinations_and_one_at_a_time_those_beside_the_baseline():
    assert len(list(combine(LABELLED, "grid", {}))) == 6
    found = combine(LABELLED, "one_at_a_time", {"model.norm": "rms", "width": "four"})
    beside = ["rms four", "layer four", "rms one head", "rms two"]
    assert [" ".join(one.values()) for one in found] == beside


def test_a_folder_is_named_after_the_settings_and_can_be_typed():
    assert folder_name({"model.norm": "layer", "width": "one head"}) == "norm=layer,width=one_head"
    both = {"model.encoder.norm": "layer", "model.norm": "rms"}
    assert folder_name(both) == "model.encoder.norm=layer,model.norm=rms"
    assert file_name("../a b/c:*") == ".._a_b_c"


def test_long_names_are_cut_and_stay_apart():
    for letter in "x你":
        long = [folder_name({"a": letter * 300 + end}) for end in "12"]
        assert long[0] != long[1]
        assert all(len(one.encode()) < MAX_NAME_BYTES + 20 for one in long)
