"""Contracts of every component, of whatever kind: its constructor, options, copies, compilation,
gradients.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from inspect import Parameter
from math import inf, nan
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError, gradcheck

from tfzoo.base.registry import Entry
from tfzoo.base.values import members
from tfzoo.errors import BadOption
from tfzoo.models.initialise import initialise
from tfzoo.testing.contract import (
    Violation,
    assert_same,
    contract,
    first_line,
)
from tfzoo.testing.samples import (
    COMPONENT_KINDS,
    PROBES,
    build,
    build_randomized,
    inputs,
    probe,
    reloaded,
    variants,
)
from tfzoo.testing.training import factors, trained_weights

FINGERPRINTS: Mapping[str, Callable[[Entry, Mapping[str, Any] | None], list[Tensor]]] = {
    "optimizer": trained_weights,
    "schedule": factors,
}
"""What options change of parts that are no modules."""
every_component = contract(*COMPONENT_KINDS)
with_options = contract(*COMPONENT_KINDS, *FINGERPRINTS)


@every_component
def a_copy_and_a_state_dict_hold_all(entry: Entry) -> None:
    """After a call, ``copy.deepcopy`` gives a component that computes the same, and a saved and
    loaded state dict restores it.
    """
    module = build_randomized(entry)
    probe(entry.kind, module)
    assert_same_probe(entry, deepcopy(module), module, "copy.deepcopy")
    other = build_randomized(entry)
    other.load_state_dict(reloaded(module.state_dict()))
    assert_same_probe(entry, other, module, "after loading the state dict")


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
    """NaN and infinity raise BadOption, which names the option. So does 0 or a negative number,
    unless it computes something finite of its own.
    """
    for name, option in entry.options.items():
        types = members(option.annotation)
        wrong = [-1, 0] * (int in types) + [-1.0, 0.0, nan, inf] * (float in types)
        for value in [one for one in wrong if one != option.default]:
            try:
                build(entry, {name: value})
                fine = value in (0, -1) and computes_something(entry, {name: value})
            except BadOption as error:
                fine = name in str(error)
            except Exception as error:  # whatever comes of a value that is not refused
                raise Violation(f"{name}={value!r} is accepted, then {error!r}") from error
            if not fine:
                raise Violation(f"{name}={value!r} is accepted, or refused without {name!r}")


@every_component
def compiled_in_one_graph_it_computes_the_same(entry: Entry) -> None:
    """``torch.compile(fullgraph=True)`` gives the same output; it fails exactly where
    ``breaks_graph`` is declared.
    """
    breaks, module = "breaks_graph" in entry.traits, build_randomized(entry)
    expected = probe(entry.kind, deepcopy(module))
    compiled = torch.compile(
        lambda given: PROBES[entry.kind](module, given), fullgraph=True, backend="eager"
    )
    torch.compiler.reset()
    try:
        found = compiled(dict(inputs()))
    except Exception:
        if not breaks:
            raise
        return
    finally:
        torch.compiler.reset()
    if breaks:
        raise Violation("claims that it breaks a compiled graph, but it does not")
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert_same(one, other, f"compiled, output {number}")


@every_component
def gradients_are_those_of_the_output(entry: Entry) -> None:
    """``torch.autograd.gradcheck`` holds in float64 for all inputs and parameters, unless
    ``surrogate_gradient`` is declared.
    """
    for options in variants(entry) if "surrogate_gradient" not in entry.traits else ():
        function, tensors = differentiable(entry, options)
        try:
            if function(*tensors):
                gradcheck(function, tensors, fast_mode=True, check_undefined_grad=False)
        except GradcheckError as error:
            raise Violation(f"{first_line(error)} {options or ''}".strip()) from None


def differentiable(
    entry: Entry, options: Mapping[str, Any] | None = None
) -> tuple[Callable[..., tuple[Tensor, ...]], tuple[Tensor, ...]]:
    """What the component computes, as a function of its inputs and parameters, and these.

    They are changed in place by :func:`torch.autograd.gradcheck`, so that the function may read
    parameters from the module.
    """
    module = build_randomized(entry, options)
    floats = {
        name: one.clone().requires_grad_()
        for name, one in inputs().items()
        if one.is_floating_point()
    }

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = {**inputs(), **dict(zip(floats, tensors, strict=False))}
        return tuple(one for one in PROBES[entry.kind](module, given) if one.requires_grad)

    return function, (*floats.values(), *module.parameters())


@every_component
def in_half_precision_it_is_close_to_float64(entry: Entry) -> None:
    """In bf16 and fp16, the first output and all gradients have the dtype of the input, and no
    output is further than 16 roundings from float64 of the same numbers.
    """
    for dtype in (torch.bfloat16, torch.float16):
        limit = 16 * torch.finfo(dtype).eps
        (outs, gradients), (exact, _) = (
            rounded(entry, dtype, wide) for wide in (dtype, torch.float64)
        )
        for one in (outs[0], *gradients):
            if one.dtype != dtype:
                raise Violation(f"{dtype} comes in, {one.dtype} goes out, or is a gradient")
        for one, other in zip(outs, exact, strict=True):
            assert_same(one, other, f"in {dtype}, beside float64", limit)


def rounded(
    entry: Entry,
    narrow: torch.dtype,
    wide: torch.dtype,
    options: Mapping[str, Any] | None = None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs, and gradients, computed in one dtype of weights and inputs rounded to another."""
    torch.default_generator.manual_seed(0)
    module = build_randomized(entry, options).to(narrow).to(wide)
    given = {
        name: one.to(narrow).to(wide).requires_grad_() if one.is_floating_point() else one
        for name, one in inputs().items()
    }
    outs = PROBES[entry.kind](module, given)
    torch.default_generator.manual_seed(2)
    slopes = [(out.double() * torch.randn(out.shape)).sum() for out in outs if out.requires_grad]
    wanted = [*(one for one in given.values() if one.requires_grad), *module.parameters()]
    found = torch.autograd.grad(slopes, wanted, allow_unused=True) if slopes else ()
    return outs, [one for one in found if one is not None]


@contract("norm")
def autocast_changes_neither_dtype_nor_statistics(entry: Entry) -> None:
    """Under autocast with weights in fp32, an input in bf16 or fp16 gives an output of its dtype,
    within 16 roundings of float64, also where squares are beyond the range of fp16.
    """
    x, norm = 300 * inputs()["x"], build_randomized(entry).float().eval()
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype), torch.no_grad():
            out = norm(x.to(dtype))
        if out.dtype != dtype:
            raise Violation(f"weights in fp32, {dtype} comes in, {out.dtype} goes out")
        exact = deepcopy(norm).double()(x.to(dtype).double())
        assert_same(out, exact, f"large numbers in {dtype}", 16 * torch.finfo(dtype).eps)


@every_component
def reset_parameters_initialises_every_parameter(entry: Entry) -> None:
    """``reset_parameters``, which the constructor calls, gives every parameter and saved buffer its
    initial value, so that a model can be built on the meta device and filled later (FSDP), and runs
    with one seed start alike.
    """
    built = build(entry)
    with torch.device("meta"):
        filled = build(entry)
    filled.to_empty(device="cpu")
    with torch.no_grad():
        for value in filled.state_dict().values():
            value.fill_(nan if value.is_floating_point() else -1)
    for module in (built, filled):
        initialise(module, seed=3)
    for name, value in filled.state_dict().items():
        if bool(value.isnan().any()):
            raise Violation(f"reset_parameters does not initialise {name}")
        assert_same(value, built.state_dict()[name], f"{name}, initialised from one seed", 0.0)
    assert_same_probe(entry, filled, built, "built on the meta device and filled later")


def assert_same_probe(entry: Entry, module: nn.Module, other: nn.Module, what: str) -> None:
    """Raise :class:`Violation` unless two components compute the same."""
    for one, two in zip(probe(entry.kind, module), probe(entry.kind, other), strict=True):
        assert_same(one, two, what, 0.0)


def computes_something(entry: Entry, options: dict[str, Any]) -> bool:
    """Whether a component with an odd number as option computes something of its own, and has
    finite gradients.
    """
    found, gradients = fingerprint(entry, options), list[Tensor]()
    if entry.kind in PROBES:
        _, gradients = rounded(entry, torch.float64, torch.float64, options)
    finite = all(bool(torch.isfinite(one).all()) for one in found + gradients)
    return finite and differs(found, fingerprint(entry))


def has_effect(entry: Entry, name: str, value: Any) -> bool | None:
    """Whether a value of an option changes anything, alone, beside another choice of one other
    option, or beside other numbers; None if it is refused everywhere.
    """
    options, found = entry.options.items(), None
    numbers = {
        key: one.default / 2 or 0.1 for key, one in options if isinstance(one.default, float)
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


def other_values(option: Parameter) -> Iterator[Any]:
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
