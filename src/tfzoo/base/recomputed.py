"""Values that the backward computes again from what it keeps anyway, in place of keeping them: an
activation before a linear map, or the output of a norm.

A norm's output is read by the projections after it, and each of these would keep it beside the
norm's own input; it costs a hundredth of a product to compute. A part says so with
:func:`computed_again`; what reads the value, an adapter or somebody's own module, knows nothing of
it, since autograd asks for each tensor that is to be kept (``saved_tensors_hooks``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from tfzoo.base import adapters, products
from tfzoo.base.custom_autograd import custom_functions_apply, differentiable_backward
from tfzoo.base.products import call, is_plain


def linear_of(activation: Callable[[Tensor], Tensor], z: Tensor, linear: nn.Linear) -> Tensor:
    """``linear(activation(z))``, for which the backward keeps ``z`` and not ``activation(z)``, at
    the price of computing that twice. ``activation`` draws no random numbers, and leaves ``z`` as
    it is.

    The module itself is called where something could depend on that: with hooks, of another class
    (an adapter, a quantised one), while a graph is traced; or where nothing would be saved.
    """
    keeps = (
        torch.is_grad_enabled()
        and z.requires_grad
        and type(linear) is nn.Linear
        and is_plain(linear)
    )
    if not keeps or not linear.weight.requires_grad or not custom_functions_apply(z):
        return call(linear, activation(z))
    return LinearOf.apply(activation, z, linear.weight, linear.bias)  # type: ignore[no-any-return,no-untyped-call]


class LinearOf(torch.autograd.Function):
    """``activation(z) W^T + b``, which keeps ``z`` alone."""

    @staticmethod
    def forward(
        ctx: Any,
        activation: Callable[[Tensor], Tensor],
        z: Tensor,
        weight: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(z, weight, bias)
        ctx.activation = activation
        return products.linear(activation(z), weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, weight, bias = ctx.saved_tensors
        if torch.is_grad_enabled():

            def formula(z: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
                return F.linear(ctx.activation(z), weight, bias)

            return None, *differentiable_backward(formula, (z, weight, bias), grad)
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            hidden = ctx.activation(z)
        # under autocast the product was of another dtype than the weight
        back = products.linear(grad, weight.to(grad.dtype).T).to(hidden.dtype)
        (to_z,) = torch.autograd.grad(hidden, z, back)
        grad = grad.reshape(-1, grad.shape[-1])
        rows = hidden.detach().reshape(-1, hidden.shape[-1]).to(grad.dtype)
        to_bias = grad.sum(0).to(bias.dtype) if ctx.needs_input_grad[3] else None
        return None, to_z, products.linear(grad.T, rows.T).to(weight.dtype), to_bias


_noted: ContextVar[Any] = ContextVar("what is computed again, by the value", default=None)


class Again:
    """A value that the backward computes: once, for all that read it."""

    def __init__(self, formula: Callable[[], Tensor], version: int) -> None:
        self.formula, self.version = formula, version
        self.made: Tensor | None = None

    def value(self) -> Tensor:
        if self.made is None:
            with torch.no_grad():
                self.made = self.formula()
        return self.made


class OnlyLooks:
    """A hook that is shown each tensor that the backward keeps, and leaves it as it is."""

    def __init__(self, look: Callable[[Tensor], object]) -> None:
        self.look = look

    def __call__(self, x: Tensor) -> Tensor:
        self.look(x)
        return x


def formulas_are_kept(x: Tensor) -> bool:
    """Whether the backward of this input is to keep formulas: on a CPU, for gradients of plain
    tensors, in their own dtype, and where no other hooks, such as those of activation
    checkpointing, have a say in what is kept.
    """
    return (
        torch.is_grad_enabled()
        and custom_functions_apply(x)
        and x.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and ((others := adapters.saved_tensors_hooks()) is None or isinstance(others[0], OnlyLooks))
    )


@contextmanager
def computing_again() -> Iterator[None]:
    """Inside it, the backward keeps the formulas that :func:`computed_again` is given."""
    others = adapters.saved_tensors_hooks()
    noted = WeakTensorKeyDictionary()

    def pack(x: Tensor) -> tuple[Any, Any]:
        again = noted.get(adapters.viewed(x))
        if again is not None and again.version == adapters.version(x) and is_whole(x):
            return again, x.shape
        if others is not None:
            others[0](x)
        return x.detach(), adapters.version(x)

    token = _noted.set(noted)
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield
    finally:
        _noted.reset(token)


def is_whole(x: Tensor) -> bool:
    """Whether a tensor is another one or that one in another shape, not a part of it."""
    base = adapters.viewed(x)
    return x.numel() == base.numel() and x.is_contiguous() and base.is_contiguous()


def unpack(kept: tuple[Any, Any]) -> Tensor:
    """What was packed.

    Raises:
        RuntimeError: it was changed since, as autograd says it without hooks.
    """
    value, known = kept
    if isinstance(value, Again):
        return value.value().view(known)
    if (now := adapters.version(value)) != known:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: {tuple(value.shape)} is at version {now}; expected version {known} instead"
        )
    return value  # type: ignore[no-any-return]  # of a pair of anything


def computed_again(value: Tensor, formula: Callable[..., Tensor], *inputs: Tensor | None) -> Tensor:
    """``value``, which is ``formula(*inputs)``, for which the backward may keep these. They are
    kept anyway, and the formula draws no random numbers. Parameters are copied, since a sharded one
    is not there in each moment of the backward.
    """
    if not torch.compiler.is_compiling() and (noted := _noted.get()) is not None:
        noted[value] = Again(partial(formula, *map(constant, inputs)), adapters.version(value))
    return value


def constant(x: Tensor | None) -> Tensor | None:
    """What has this value later, too, and no gradient."""
    if x is None:
        return None
    return x.detach().clone() if isinstance(x, nn.Parameter) else x.detach()


def follows(value: Tensor, function: Callable[[Tensor], Tensor], of: Tensor) -> Tensor:
    """``value``, which is ``function(of)``: where that is computed again, this is, too."""
    if not torch.compiler.is_compiling() and (noted := _noted.get()) is not None:
        again = noted.get(of)
        if again is not None and again.version == adapters.version(of):
            noted[value] = Again(lambda: function(again.formula()), adapters.version(value))
    return value
