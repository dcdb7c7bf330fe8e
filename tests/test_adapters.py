"""Private names of other packages: each is there and does what its adapter says.

A test that fails here after an upgrade names the function of ``tfzoo/base/adapters.py`` to mend.
"""

import ast
from pathlib import Path

import pytest

import tfzoo
from tfzoo.base import adapters

ROOT = Path(tfzoo.__file__).parent


def test_the_attention_function_of_a_transformers_model():
    transformers = pytest.importorskip("transformers", minversion="5")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=4, patch_size=4))
    model.set_attn_implementation("eager")
    assert adapters.attention_implementation(model.layers[0].attention.config) == "eager"
    assert adapters.supports_sdpa(model)
    type(model)._supports_sdpa, before = False, type(model)._supports_sdpa
    assert not adapters.supports_sdpa(model)
    type(model)._supports_sdpa = before


def private_names(path):
    """Attributes with one leading underscore that the file does not define itself."""
    tree = ast.parse(path.read_text("utf-8"))
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in own
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "os"))
    ]


def test_no_other_file_uses_a_private_name():
    """``_softmax_backward_data`` is an operator of ATen, for which torch has no public name."""
    found = [
        line
        for path in sorted(ROOT.rglob("*.py"))
        if path.name != "adapters.py"
        for line in private_names(path)
        if "torch.ops.aten." not in line and "self.finish._is_last" not in line
    ]
    assert found == []
