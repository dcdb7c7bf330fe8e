"""Contracts of every component, of whatever kind: its constructor, options, copies, compilation,
the dtype of its weights.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from itertools import product
from math import inf, nan
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.registry import Entry
from tfzoo.base.values import Option, members
from tfzoo.errors import BadOption
from tfzoo.testing import optimizer, schedule
from tfzoo.testing.contract import (
    Violation,
    assert_dtype,
    assert_finite,
    assert_same,
    contract,
    default_dtype,
    first_line,
)
from tfzoo.testing.probes import PROBES, inputs, probe
from tfzoo.testing.samples import COMPONENT_KINDS, build, build_randomized, variants

FINGERPRINTS: Mapping[str, Callable[[Entry, Mapping[str, Any] | None], list[Tensor]]] = {
    "optimizer": optimizer.trained_weights,
    "schedule": schedule.factors,
}
"""What options change of parts that are no modules."""
OTHER_DEVICE = re.compile(r"expected device|same device")
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
every_component = contract(*COMPONENT_KINDS)
with_options = contract(*COMPONENT_KINDS, *FINGERPRINTS)


@every_component
def inputs_are_not_changed(entry: Entry) -> None:
    """It changes none of its inputs in place."""
    probe(entry.kind, build_randomized(entry), watch=True)


@every_component
def the_constructor_fills_every_tensor(entry: Entry) -> None:
    """After the constructor, no parameter or saved buffer holds uninitialised memory."""
    with uninitialised_is_nan():
        built = build(entry)
    for name, value in built.state_dict().items():
        if bool(value.isnan().any()):
            raise Violation(f"the constructor does not fill {name}")


@every_component
def the_state_dict_holds_all(entry: Entry) -> None:
    """A saved and loaded state dict restores what the component computes."""
    module, buffer = build_randomized(entry), io.BytesIO()
    torch.save(module.state_dict(), buffer)
    buffer.seek(0)
    other = build_randomized(entry)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert_same_probe(entry, other, module, "after loading the state dict")


@every_component
def copies_compute_the_same(entry: Entry) -> None:
    """After a call, ``copy.deepcopy`` and ``pickle`` give a component that computes the same."""
    module = build_randomized(entry)
    probe(entry.kind, module)
    assert_same_probe(entry, deepcopy(module), module, "copy.deepcopy")
    assert_same_probe(entry, pickle.loads(pickle.dumps(module)), module, "pickle")


@with_options
def every_option_changes_something(entry: Entry) -> None:
    """Every option changes the initial parameters or the output for some other value (weights after
    two steps, a factor), with the defaults of the other options, another choice of one of them, or
    other numbers.
    """
    for name, option in entry.options.items():
        tried = [(value, has_effect(entry, name, value)) for value in other_values(option)]
        # refused with a word is fine, as long as some value is not
        changes = [(value, changed) for value, changed in tried if changed is not None]
        if not any(changed for _, changed in changes):
            raise Violation(
                f"option {name!r} is accepted and not used: "
                f"{', '.join(repr(value) for value, _ in changes)} change nothing"
            )
        for value, changed in changes:
            if isinstance(value, bool | str) and not changed:
                raise Violation(f"option {name!r}: {value!r} is the same as {option.default!r}")


@with_options
def invalid_values_are_refused(entry: Entry) -> None:
    """A value of the wrong type, NaN, infinity and an unknown option raise BadOption, which names
    the option. So does 0 or a negative number, unless it computes something finite of its own.
    """
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
                build(entry, {name: value})
            except BadOption as error:
                if name not in str(error):
                    raise Violation(
                        f"{name}={value!r} is refused without naming {name!r}: {error}"
                    ) from None
                continue
            try:
                fine = value in (0, -1) and computes_something(entry, {name: value})
            except Exception as error:  # whatever comes of a value that is not refused
                raise Violation(f"{name}={value!r} is accepted, then {error!r}") from error
            if not fine:
                raise Violation(f"{name}={value!r} is accepted")
    for typo in ("no_such_option", *(f"{name}x" for name in entry.options)):
        try:
            build(entry, {typo: 1})
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
def compiled_in_one_graph_it_computes_the_same(entry: Entry) -> None:
    """``torch.compile(fullgraph=True)`` gives the same output, with each choice of an option; it
    fails exactly where ``breaks_graph`` is declared.
    """
    breaks = "breaks_graph" in entry.traits
    for options in variants(entry):
        module = build_randomized(entry, options)
        expected = probe(entry.kind, deepcopy(module))
        torch.compiler.reset()
        try:
            compiled = torch.compile(
                lambda given, module=module: PROBES[entry.kind](module, given),
                fullgraph=True,
                backend="eager",
            )
            found = compiled(dict(inputs()))
        except Exception:
            if breaks:
                continue
            raise
        finally:
            torch.compiler.reset()
        if breaks:
            raise Violation("claims that it breaks a compiled graph, but it does not")
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"compiled, output {number} {options or ''}".rstrip())


@every_component
def what_it_makes_is_where_its_inputs_are(entry: Entry) -> None:
    """On another device than the CPU, here one without numbers (``torch.device("meta")``), no
    tensor that it makes stays on the CPU. It may read numbers, which stops there.
    """
    with torch.device("meta"):
        module = build(entry)
    try:
        outs = PROBES[entry.kind](module, {name: one.to("meta") for name, one in inputs().items()})
    except (NotImplementedError, RuntimeError) as error:
        if OTHER_DEVICE.search(str(error)):
            raise Violation(f"it makes a tensor on the CPU: {first_line(error)}") from error
        return
    if not all(one.is_meta for one in outs):
        raise Violation("its output is on the CPU, whatever the device of its inputs")


@every_component
def weights_of_every_dtype_train(entry: Entry) -> None:
    """With weights and inputs in bf16, fp16, fp32 or float64, a training step works, with each
    choice of an option: outputs have the dtype of the inputs or a wider one, gradients and updated
    weights are finite.
    """
    for options, dtype in product(variants(entry), DTYPES):
        module = build_randomized(entry, options).to(dtype)
        given = {
            name: one.to(dtype).requires_grad_() if one.is_floating_point() else one
            for name, one in inputs().items()
        }
        outs = PROBES[entry.kind](module, given)
        assert_dtype(outs[0], dtype)
        for one in outs:
            assert_dtype(one, torch.promote_types(one.dtype, dtype))
            assert_finite(one, f"output in {dtype}")
        # A sine: its slope is bounded, so that no gradient of a large output overflows in fp16.
        loss = torch.stack([one.float().sin().mean() for one in outs]).sum()
        if not loss.requires_grad:
            continue
        loss.backward()
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                assert_finite(parameter.grad, f"gradient of {name} in {dtype}")
                with torch.no_grad():
                    parameter -= 0.01 * parameter.grad
                assert_finite(parameter, f"{name} after a step in {dtype}")
        for one in PROBES[entry.kind](module, given):
            assert_finite(one, f"output after a step in {dtype}")


@every_component
def float64_is_close_to_fp32(entry: Entry) -> None:
    """Built in fp32 and moved to float64, it computes in float64 what it computes in fp32, with
    each choice of an option.
    """
    for options in variants(entry):
        with default_dtype(torch.float32):
            module = build_randomized(entry, options)
        given = {
            name: one.float() if one.is_floating_point() else one for name, one in inputs().items()
        }
        single = PROBES[entry.kind](module, given)
        double = PROBES[entry.kind](
            module.double(),
            {name: one.double() if one.is_floating_point() else one for name, one in given.items()},
        )
        for one, other in zip(double, single, strict=True):
            assert_same(one, other, f"float64 and fp32 {options or ''}".rstrip(), 1e-4)


def assert_same_probe(entry: Entry, module: nn.Module, other: nn.Module, what: str) -> None:
    """Raise :class:`Violation` unless two components compute the same."""
    for one, two in zip(probe(entry.kind, module), probe(entry.kind, other), strict=True):
        assert_same(one, two, what, 0.0)


def computes_something(entry: Entry, options: dict[str, Any]) -> bool:
    """Whether a component with an odd number as option computes something of its own."""
    found = fingerprint(entry, options)
    return all(bool(torch.isfinite(one).all()) for one in found) and differs(
        found, fingerprint(entry)
    )


def has_effect(entry: Entry, name: str, value: Any) -> bool | None:
    """Whether a value of an option changes anything, alone, beside another choice of one other
    option, or beside other numbers; None if it is refused everywhere.
    """
    found = None
    numbers = {
        key: option.default / 2 or 0.1
        for key, option in entry.options.items()
        if isinstance(option.default, float)
    }
    for others in (*variants(entry), numbers):
        try:
            changed = fingerprint(entry, {**others, name: value})
            found = differs(changed, fingerprint(entry, others))
        except BadOption:
            continue
        if found:
            break
    return found


def fingerprint(entry: Entry, options: Mapping[str, Any] | None = None) -> list[Tensor]:
    """What a component starts as and what it computes with random parameters, drawn alike each
    time; of other kinds, what :data:`FINGERPRINTS` says.
    """
    if entry.kind in FINGERPRINTS:
        return FINGERPRINTS[entry.kind](entry, options)
    torch.default_generator.manual_seed(5)
    started = [value.clone() for value in build(entry, options).state_dict().values()]
    torch.default_generator.manual_seed(5)
    return started + probe(entry.kind, build_randomized(entry, options))


def differs(one: list[Tensor], other: list[Tensor]) -> bool:
    """Whether two lists of tensors differ in a shape or by more than rounding of fp32."""
    if [x.shape for x in one] != [x.shape for x in other]:
        return True
    return any(
        not torch.allclose(x.double(), y.double(), 1e-5, 1e-6, equal_nan=True)
        for x, y in zip(one, other, strict=True)
    )


def other_values(option: Option) -> Iterator[Any]:
    """Values of an option other than its default; several for a number, as one may not fit."""
    number = option.default if isinstance(option.default, int | float) else 0
    values: dict[Any, tuple[Any, ...]] = {
        bool: (not option.default,),
        int: ((number or 10) + 2, (number or 10) * 2, (number or 10) // 2),
        float: (number + 0.1, (number or 1.0) * 2, (number or 1.0) / 2),
        str: ("other",),
        type(None): (None,),
    }
    for choice in members(option.annotation):
        yield from (one for one in values.get(choice, (choice,)) if one != option.default)


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
