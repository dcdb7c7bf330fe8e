"""Run one check in a process of its own, with something in tfzoo changed."""

import ast
import os
import sys
from functools import cache, partial

from tests import forked
from tests.testing.patching import ROOT, apply

SLOW = "compiled"


def passes(check: str, changed: tuple[str, ast.Module] | None = None) -> tuple[bool, str]:
    """Whether a check passes, with a syntax tree in place of a file's; and what it said.

    A check is a pytest node (``tests/...::test_...``), a contract of a component (``norm rms
    padding_has_no_influence``, or ``norm rms *`` for all of them that are fast, and the example in
    its docstring), or of a stack or a classifier (``stack encoder-norm=rms the_source_is_read``,
    ``classifier plain ...``).
    """
    return _unchanged(check) if changed is None else _elsewhere(check, changed)


@cache
def _unchanged(check: str) -> tuple[bool, str]:
    return _elsewhere(check, None)


def _elsewhere(check: str, changed: tuple[str, ast.Module] | None) -> tuple[bool, str]:
    passed, said = forked.call(_run, check, changed)
    if passed is None:
        raise RuntimeError(f"{check}: {said}")
    return passed, said


def _run(check: str, changed: tuple[str, ast.Module] | None) -> tuple[bool | None, str]:
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    try:
        if changed is not None:
            apply(*changed)
        return _check(check)
    except Exception as error:  # a change that breaks an import is no bug that a test caught
        return None, f"{type(error).__name__}: {error}"


def _check(check: str) -> tuple[bool | None, str]:
    import torch

    torch.set_num_threads(1)
    if "::" in check:
        import pytest

        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # which takes half a second
        code = pytest.main([check, "-q", "-p", "no:cacheprovider", "--assert=plain"])
        return (None if code not in (0, 1) else code == 0), f"pytest ended with {code!r}"
    where, name, contract = check.split()
    problems = {"stack": _of_model, "classifier": _of_model}.get(
        where, partial(_of_component, where)
    )(name, contract)
    return not problems, "; ".join(problems)


def _of_model(name: str, contract: str) -> list[str]:
    """One contract of one stack or classifier: of the combination with this name."""
    from tests.testing.allowed import build_allowing, violations
    from tests.testing.classifiers import Choice, contracts_of
    from tfzoo.testing.stacks import SIDES, Combination

    parts = name.split("-")
    chosen = dict(part.split("=") for part in parts if "=" in part)
    model = Combination(parts[0], **chosen) if parts[0] in SIDES else Choice(**chosen)
    rules, subject = build_allowing(model)
    asked = [one for one in contracts_of(model) if one.__name__ == contract]
    if not asked:
        raise ValueError(f"no contract named {contract}")
    return [] if subject is None else list(violations(subject, rules, asked).values())


def _of_component(kind: str, name: str, contract: str) -> list[str]:
    import doctest

    from tests.testing import rare
    from tfzoo.base.registry import registry
    from tfzoo.testing import contracts
    from tfzoo.testing.contract import run_contract

    entry = registry(kind).entry(name)
    asked = [
        one
        for one in [*contracts(kind), *rare.CONTRACTS.get(kind, ())]
        if contract == one.__name__ or (contract == "*" and not one.__name__.startswith(SLOW))
    ]
    if not asked:
        raise ValueError(f"no contract named {contract}")
    for one in asked:
        result = run_contract(one, entry)
        if not result.ok:
            return [f"{result.name}: {result.message}"]
    example = contract == "*" and doctest.testmod(sys.modules[entry.cls.__module__]).failed
    return ["the example in its docstring"] if example else []
