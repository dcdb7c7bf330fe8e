"""What may be registered, and what is said of what may not."""

import importlib
import sys
from importlib.metadata import EntryPoint

import pytest
import torch

import tfzoo
from tfzoo.base.registry import Registry, create, registry
from tfzoo.commands.main import main
from tfzoo.components.norm.rms import RMS
from tfzoo.errors import BadComponent, BadOption, Clash
from tfzoo.learning.adapter import Adapter
from tfzoo.learning.settings import Compute
from tfzoo.models.transformer import Transformer


def test_a_subclass_has_the_constructor_that_it_inherits():
    class Negative(RMS):
        def forward(self, x, mask=None):
            return -super().forward(x, mask)

    norms = Registry("norm")
    norms.add(Negative, "negative")
    assert norms.entry("negative").supplied == registry("norm").entry("rms").supplied
    assert norms.entry("negative").options == registry("norm").entry("rms").options
    entry, options = norms.options({"name": "negative", "eps": 1e-3})
    assert entry.cls(dim=4, **options).eps == 1e-3


@pytest.mark.parametrize("spec", [None, 5, ["rms"], b"rms", {}, {"name": 5}])
def test_what_names_no_component_is_told_what_does(spec):
    with pytest.raises(BadOption, match=r"norm wants a name or .*For no norm: 'none'"):
        create("norm", spec, dim=4)


def test_options_without_a_name_are_told_that_it_is_missing():
    with pytest.raises(BadOption, match=r"not {'eps': 1.0}: the name is missing$"):
        create("norm", {"eps": 1.0}, dim=4)


@pytest.mark.parametrize("spec", [RMS, torch.nn.LayerNorm(4)])
def test_a_class_or_a_module_instead_of_its_name_is_told_how_to_get_one(spec):
    with pytest.raises(BadOption, match=r"a class is named, by @tfzoo.register\('norm', NAME\)"):
        create("norm", spec, dim=4)


@pytest.mark.parametrize(
    ("settings", "misspelt"),
    [
        (tfzoo.Optim, "weight_decai"),
        (tfzoo.Search, "beams"),
        (tfzoo.Loss, "class_weight"),
        (tfzoo.SpecialIds, "pads"),
        (Compute, "compiled"),
        (Adapter, "ranks"),
    ],
)
def test_a_misspelt_setting_is_told_the_right_name(settings, misspelt):
    with pytest.raises(BadOption, match=f"no argument '{misspelt}'. Did you mean"):
        settings(**{misspelt: 1})


def test_what_a_model_does_not_supply_is_called_an_option_only_if_it_is_one():
    with pytest.raises(
        BadOption, match=r'option: create\("norm", {"name": "rms", "eps": \.\.\.}\)'
    ):
        create("norm", "rms", dim=4, eps=1e-3)
    with pytest.raises(BadOption, match=r"'width' is nothing .*'rms' takes dim"):
        create("norm", "rms", width=4)


@pytest.mark.parametrize("name", registry("residual").own_names())
def test_a_residual_connection_alone_needs_its_sublayer_and_its_norm(name):
    x = torch.randn(2, 3, 4)
    sublayer = create("residual", name, inner=torch.nn.Linear(4, 4), norm="rms", dim=4)
    assert sublayer(x).shape == x.shape


@pytest.fixture
def broken(monkeypatch):
    """Another package whose norm cannot be imported."""
    points = {
        "gone": EntryPoint("gone", "a_package_that_is_gone:Norm", "tfzoo.norm"),
        "odd": EntryPoint("odd", "math:pi", "tfzoo.norm"),
    }
    monkeypatch.setattr(registry("norm"), "_points", lambda: points)


def test_a_package_that_takes_a_name_of_tfzoos_own_is_named_and_left_out(monkeypatch, capsys):
    taken = EntryPoint("rms", "math:pi", "tfzoo.norm")
    monkeypatch.setattr("tfzoo.base.registry.entry_points", lambda group: [taken])
    fresh = Registry("norm")
    assert fresh.names() == fresh.own_names()
    assert capsys.readouterr().err.count("norm 'rms': math:pi is left out") == 1


def test_what_cannot_be_imported_is_named_and_the_others_are_listed(broken, capsys):
    with pytest.raises(BadComponent, match=r"norm 'gone': .*_is_gone:Norm \(ModuleNotFoundError"):
        registry("norm").entry("gone")
    assert main(["list", "norm"]) == 0
    out = capsys.readouterr().out
    assert "gone      cannot be used: norm 'gone': cannot import a_package_that_is_gone:Norm" in out
    assert "odd       cannot be used: norm 'odd': math:pi is no class" in out
    assert "rms       " in out
    with pytest.raises(Clash, match="leaky-norm"):  # its alternatives are those that can be loaded
        Transformer(8, dim=4, heads=1, layers=1, norm="batch")
    assert main(["show", "norm", "gone"]) == 2
    assert capsys.readouterr().err.startswith("tfzoo: norm 'gone': cannot import")


def test_a_class_of_another_kind_is_refused_when_it_is_registered():
    with pytest.raises(BadComponent, match=r"norm 'layerlike' .*subclass of tfzoo.contracts.Norm"):
        Registry("norm").add(torch.nn.LayerNorm, "layerlike")


TWO = """
from tfzoo.contracts import Attention, Norm
from tfzoo.base.registry import register

@register("norm", "neighbour", paper="mine")
class Neighbour(Norm):
    pass

class Faster(Attention):
    def forward(self, q, k, v, **options):
        return v
"""


@pytest.fixture
def two(tmp_path, monkeypatch):
    """A module of another package with two parts, the second of which cannot be defined."""
    (tmp_path / "two_parts.py").write_text(TWO, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    points = {"neighbour": EntryPoint("neighbour", "two_parts:Neighbour", "tfzoo.norm")}
    monkeypatch.setattr(registry("norm"), "_points", lambda: points)
    yield tmp_path / "two_parts.py"
    registry("norm").registered.pop("neighbour", None)
    sys.modules.pop("two_parts", None)


def test_a_class_that_raises_is_named_for_each_of_its_neighbours(two):
    with pytest.raises(BadComponent, match="attention class Faster: it overrides forward"):
        registry("norm").entry("neighbour")


def test_a_class_that_is_defined_again_takes_its_own_place(two):
    two.write_text(TWO.partition("class Faster")[0], "utf-8")
    first = registry("norm").entry("neighbour").cls
    importlib.reload(sys.modules["two_parts"])
    assert registry("norm").entry("neighbour").cls is not first
    other = type("Other", (first,), {})
    with pytest.raises(BadComponent, match=r"the name is taken by two_parts.Neighbour"):
        registry("norm").add(other, "neighbour")
