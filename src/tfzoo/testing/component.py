"""What every component that holds parameters promises, of whatever kind."""

# ruff: noqa: D103  # a promise is named after what it promises

from __future__ import annotations

import inspect
import io
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from math import inf, nan
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.errors import BadOption
from tfzoo.models.initialise import initialise
from tfzoo.registry import Entry
from tfzoo.testing.probes import PROBES, inputs, probe
from tfzoo.testing.promise import Violation, promise, same
from tfzoo.testing.samples import fresh, make, variants
from tfzoo.values import Option, members

MODULES = ("attention", "norm", "position", "feedforward", "pooling")
every_component = promise(*MODULES)


@every_component
def it_says_what_it_does(entry: Entry) -> None:
    text = inspect.getdoc(entry.cls) if "__doc__" in vars(entry.cls) else ""
    if not text or "``" not in text:
        raise Violation(
            "the docstring should begin with what it does and hold its formula in double backquotes"
        )
    for option in entry.options:
        if option not in text:
            raise Violation(f"the docstring does not name option {option!r}")


@every_component
def what_it_is_given_stays_as_it_was(entry: Entry) -> None:
    """Checked on the inputs' version counters, which count changes in place."""
    probe(entry.kind, make(entry), watch=True)


@every_component
def every_parameter_is_started_from_the_seed(entry: Entry) -> None:
    """By ``reset_parameters``, so that a model can be built without memory and filled later."""
    with uninitialised_is_nan():
        built, again = fresh(entry), fresh(entry)
        with torch.device("meta"):
            empty = fresh(entry)
    for name, value in built.state_dict().items():
        if bool(value.isnan().any()):
            raise Violation(f"the constructor leaves {name} as it found the memory")
    with torch.no_grad():
        for value in again.state_dict().values():
            value.fill_(float("nan")) if value.is_floating_point() else value.fill_(-1)
    for module in (built, again):
        initialise(module, seed=3)
    filled = empty.to_empty(device="cpu")
    initialise(filled, seed=3)
    for name, value in built.state_dict().items():
        for other in (again, filled):
            if bool(other.state_dict()[name].isnan().any()):
                raise Violation(f"reset_parameters leaves {name} as it is")
            same(other.state_dict()[name], value, f"{name}, started twice from one seed", 0.0)
    same_probe(entry, filled, built, "built without memory and filled later")


@every_component
def the_state_dict_holds_all(entry: Entry) -> None:
    module, buffer = make(entry), io.BytesIO()
    torch.save(module.state_dict(), buffer)
    buffer.seek(0)
    other = make(entry)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    same_probe(entry, other, module, "after loading the state dict")
    same_probe(entry, deepcopy(module), module, "a copy")


@every_component
def every_option_changes_something(entry: Entry) -> None:
    before = fingerprint(entry)
    for name, option in entry.options.items():
        changes = []
        for value in other_values(option):
            try:
                changes.append((value, differs(fingerprint(entry, {name: value}), before)))
            except BadOption:
                continue  # refused with a word is fine, as long as some value is not
        if not any(changed for _, changed in changes):
            raise Violation(
                f"option {name!r} is accepted and not used: {', '.join(repr(value) for value, _ in changes)} change nothing"
            )
        for value, changed in changes:
            if isinstance(value, bool | str) and not changed:
                raise Violation(f"option {name!r}: {value!r} is the same as {option.default!r}")


@every_component
def a_value_that_cannot_be_is_refused(entry: Entry) -> None:
    for name, option in entry.options.items():
        wrong: list[Any] = [["wrong"], {"wrong": 1}, object()]
        if str not in members(option.annotation):
            wrong.append("wrong")
        if int in members(option.annotation):
            wrong += [2.5, -1] + [0] * (option.default != 0)
        if float in members(option.annotation):
            wrong += [-1.0, nan, inf] + [0.0] * (option.default != 0)
        for value in wrong:
            try:
                made = fresh(entry, {name: value})
            except BadOption as error:
                if name not in str(error):
                    raise Violation(
                        f"{name}={value!r} is refused without naming {name!r}: {error}"
                    ) from None
                continue
            if value not in (0, -1) or not same_or_finite(entry, made):
                raise Violation(f"{name}={value!r} is accepted")
    for typo in ("no_such_option", *(f"{name}x" for name in entry.options)):
        try:
            fresh(entry, {typo: 1})
        except BadOption as error:
            if typo.removesuffix(
                "x"
            ) in entry.options and f"Did you mean {typo.removesuffix('x')!r}" not in str(error):
                raise Violation(
                    f"misspelt option {typo!r} is refused without the right name: {error}"
                ) from None
            continue
        raise Violation(f"misspelt option {typo!r} is accepted")


@every_component
def gradients_are_the_slopes_of_what_it_computes(entry: Entry) -> None:
    """Along random directions through all inputs and parameters, measured by small steps both ways."""
    for options in variants(entry):
        module = make(entry, options)
        floats = {
            name: one.clone().requires_grad_()
            for name, one in inputs().items()
            if one.is_floating_point()
        }
        through = [*floats.values(), *module.parameters()]

        def loss(module: Any = module, given: dict[str, Tensor] = floats) -> Tensor:
            outs = PROBES[entry.kind](module, {**inputs(), **given})
            draw = torch.Generator().manual_seed(2)
            return torch.stack(
                [(one * torch.randn(one.shape, generator=draw)).sum() for one in outs]
            ).sum()

        value = loss()
        if not value.requires_grad:
            continue
        gradients = torch.autograd.grad(value, through, allow_unused=True)
        for _ in range(4):
            steps = [5e-4 * torch.randn_like(one) for one in through]
            expected = sum(
                float((g * step).sum())
                for g, step in zip(gradients, steps, strict=True)
                if g is not None
            )
            size = (
                sum(
                    float((g * step).square().sum())
                    for g, step in zip(gradients, steps, strict=True)
                    if g is not None
                )
                ** 0.5
            )
            sides = []
            with torch.no_grad():
                for sign in (1, -2, 1):
                    for one, step in zip(through, steps, strict=True):
                        one.add_(step, alpha=sign)
                    sides.append(float(loss()))
            slope = (sides[0] - sides[1]) / 2
            if not abs(slope - expected) <= 0.05 * size + 1e-4:
                raise Violation(
                    f"a step that should change the output by {expected:.4g} changes it by {slope:.4g} {options or ''}"
                )


@every_component
def compiled_in_one_graph_it_computes_the_same(entry: Entry) -> None:
    module = make(entry)
    expected = probe(entry.kind, deepcopy(module))
    torch.compiler.reset()
    try:
        compiled = torch.compile(
            lambda given: PROBES[entry.kind](module, given), fullgraph=True, backend="aot_eager"
        )
        for number, (one, other) in enumerate(zip(compiled(dict(inputs())), expected, strict=True)):
            same(one, other, f"compiled, output {number}", 1e-4)
    finally:
        torch.compiler.reset()


def same_probe(entry: Entry, module: nn.Module, other: nn.Module, what: str) -> None:
    """Raise :class:`Violation` unless two components compute the same."""
    for one, two in zip(probe(entry.kind, module), probe(entry.kind, other), strict=True):
        same(one, two, what, 0.0)


def same_or_finite(entry: Entry, module: nn.Module) -> bool:
    """Whether a component with an odd number as option computes something of its own."""
    found = probe(entry.kind, module)
    return all(bool(torch.isfinite(one).all()) for one in found) and differs(
        found, probe(entry.kind, fresh(entry))
    )


def fingerprint(entry: Entry, options: dict[str, Any] | None = None) -> list[Tensor]:
    """What a component starts as and what it computes with random parameters, drawn alike each
    time.
    """
    torch.manual_seed(5)
    started = [value.clone() for value in fresh(entry, options).state_dict().values()]
    torch.manual_seed(5)
    return started + probe(entry.kind, make(entry, options))


def differs(one: list[Tensor], other: list[Tensor]) -> bool:
    if [x.shape for x in one] != [x.shape for x in other]:
        return True
    return any(
        not torch.allclose(x.double(), y.double(), 1e-5, 1e-6, equal_nan=True)
        for x, y in zip(one, other, strict=True)
    )


def other_values(option: Option) -> Iterator[Any]:
    """Values of an option that are not its default; several for a number, as not each one may fit."""
    for choice in members(option.annotation):
        default = option.default
        if choice is bool:
            yield not default
        elif choice is int:
            yield from (
                value
                for value in ((default or 10) + 2, (default or 10) * 2, (default or 10) // 2)
                if value != default
            )
        elif choice is float:
            yield from (default + 0.1 if default is not None else 0.1, (default or 1.0) * 2)
        elif choice is str:
            yield "other"
        elif (choice is not type(None) and choice != default) or (
            choice is type(None) and default is not None
        ):
            yield None if choice is type(None) else choice


@contextmanager
def uninitialised_is_nan() -> Iterator[None]:
    """Memory that is taken and not filled holds no numbers."""
    switch: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), switch.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    switch.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        switch.fill_uninitialized_memory = before[1]
