"""The site has a page for every part, which says all that is known of it."""

import inspect
import re
from types import SimpleNamespace

import pytest

import tfzoo
from docs._ext import api, combinations, docstrings, reference
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import list_components, registry
from tfzoo.errors import Clash
from tfzoo.models.options import StackOptions
from tfzoo.models.rules import check_clashes
from tfzoo.testing.samples import COMPONENT_KINDS

PARTS = [(kind, name) for kind in KINDS for name in registry(kind).own_names()]


def test_every_part_has_a_page_in_the_contents_of_its_kind():
    pages = reference.pages()
    for kind, name in PARTS:
        assert f"{kind}/{name}.md" in pages
        assert f"\n{kind}/{name}\n" in pages[f"{kind}.md"]()


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_what_a_docstring_says_is_on_the_page(kind, name):
    entry = registry(kind).entry(name)
    said = docstrings.read(entry.cls)
    if kind in COMPONENT_KINDS:
        assert said.formulas
        assert said.example
        assert said.options.keys() == entry.options.keys()
        assert all(said.options.values())
    assert said.summary.replace("``", "`") == entry.summary


def test_a_page_says_all_that_is_known_of_a_part():
    page = reference.pages()["norm/batch.md"]()
    for said in (
        "# batch",
        "(x - mean) / sqrt(var + eps) * weight + bias",
        "https://arxiv.org/abs/1502.03167",
        "| `momentum` | `float` | `0.1` | weight of the batch in the running statistics. |",
        "`mixes_tokens:training`: in training, the output at a token depends on other tokens, also "
        "on those of other texts.",
        "Not in a decoder",
        "| `batch` itself | 3,072 |",
        "[norm](../../ablations.md#norm)",
        ">>> norm(x, valid).detach().flatten()",
    ):
        assert said in page, said


def test_every_name_of_the_api_is_there():
    for name in api.names():
        assert api.summary(name), name


def test_what_the_table_refuses_is_what_a_model_refuses():
    refused = {(one.choices, one.side) for one in combinations.refusals()}
    for position in list_components()["position"]:
        for attention in list_components()["attention"]:
            options = StackOptions(attention=attention, position=position)
            choices = (("attention", attention), ("position", position))
            listed = {(choices, "decoder"), (choices[:1], "decoder"), (choices[1:], "decoder")}
            try:
                check_clashes(options.parts(causal=True))
            except Clash:
                assert listed & refused, choices
            else:
                assert not listed & refused, choices


@pytest.mark.parametrize(
    "name", ["Encoder", "EncoderLayer", "Decoder", "DecoderLayer", "LanguageModel"]
)
def test_the_page_of_a_model_says_what_each_of_its_options_does(name):
    cls = getattr(tfzoo, name)
    lines = inspect.getdoc(cls).splitlines()
    api.expand(None, "class", f"tfzoo.{name}", cls, None, lines)
    text = "\n".join(lines)
    assert "see :class:" not in text
    for option in inspect.signature(cls).parameters:
        assert len(re.findall(rf"^ {{4}}(?:\w+, )*{option}(?:, \w+)*: \S", text, re.M)) == 1, option
    assert "    kv_heads: number of heads of keys and values, each shared" in text
    said = re.findall(r"^ {4}([\w, ]+): components, by name or as ", text, re.M)
    assert len(said) == 1, "once for all of them"
    assert {"norm", "attention"} <= {*said[0].split(", ")}


@pytest.mark.parametrize(
    ("page", "language"),
    [("docs/index", "en"), ("docs/index.zh-CN", "zh-CN"), ("docs/compose", "en")],
)
def test_a_page_says_its_language(page, language):
    app, context = (
        SimpleNamespace(config=SimpleNamespace(root_doc="docs/index")),
        {"language": "en"},
    )
    reference.describe_page(app, page, "", context)
    assert context["language"] == language
    assert ("furo_hide_toc" in context) == ("index" in page)
