"""Every error that a user can meet: what was asked, what is known, what to do next."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class TfzooError(Exception):
    """Bad input. The command line prints the message alone and exits with ``code``. ``key`` is the
    key of a recipe that it is about, if that is known, and the message goes on after it:
    ``BadOption("=-1 must be over 0", key="lr")``.
    """

    code = 2

    def __init__(self, message: str = "", *, key: str = "") -> None:
        super().__init__(message)
        self.key = key

    def __str__(self) -> str:
        return f"{self.key}{super().__str__()}"


class UnknownName(TfzooError):
    """A name that nothing is registered or known under."""

    def __init__(self, what: str, name: str, known: Iterable[str], look: str = "") -> None:
        super().__init__(
            f"no {what} named {name!r}.{did_you_mean(name, known)} "
            f"Known: {listing(known)}{look and f' ({look})'}"
        )


class BadOption(TfzooError):
    """An option that does not exist, or a value that it cannot take."""


class BadComponent(TfzooError):
    """A class that breaks the rules of its kind, found when it is registered or computes."""


class Clash(TfzooError):
    """Two good components that cannot work together. ``rule`` is what ``allow: [rule]`` accepts."""

    def __init__(self, rule: str, reason: str, remedy: str) -> None:
        self.rule = rule
        super().__init__(f"{reason} {remedy}")


class BadData(TfzooError):
    """Text that cannot be read as what it should be; the message names file and line."""


class BadRecipe(TfzooError):
    """A recipe that cannot be parsed, or asks for what a recipe may not do."""


class BadRun(TfzooError):
    """A run folder or a checkpoint that is missing, damaged or refused."""


class NotFinite(TfzooError):
    """A training whose loss or gradients were not finite for too many steps in a row."""

    code = 1

    def __init__(self, steps: int) -> None:
        super().__init__(
            f"training stopped: loss or gradient was not finite in {steps} "
            f"step{'s' * (steps != 1)} in a row, none of which was taken. "
            "Lower optim.lr, set trainer.gradient_clip_val, or use trainer.precision 32-true; "
            "trainer.detect_anomaly: true finds the operation"
        )


class NoNextToken(TfzooError):
    """Logits of a sentence are NaN or +inf, or -inf for every token: decoding cannot go on."""

    code = 1

    def __init__(self, sentence: int) -> None:
        super().__init__(
            f"no next token for sentence {sentence} of the batch: the model's logits are not finite"
            " (NaN or +inf, or -inf for every token). Check that its weights are finite; in fp16 "
            "decode with trainer.precision 32-true"
        )


@contextmanager
def within(where: str) -> Iterator[None]:
    """Context in which the message of a :class:`TfzooError` begins with ``where``, such as the name
    of a file.
    """
    try:
        yield
    except TfzooError as error:
        error.args, error.key = (f"{where}: {error}",), ""
        raise


@contextmanager
def under(key: str) -> Iterator[None]:
    """Context in which a :class:`TfzooError` is about a key of a recipe, or one below it, which
    may already have its full name. What a component calls itself, ``attention 'cosine': scale``, is
    part of the message.
    """
    try:
        yield
    except TfzooError as error:
        if " " in error.key or not error.key:
            error.args, error.key = (f": {error}",), key
        elif not error.key.startswith(f"{key}."):
            error.key = f"{key}.{error.key}"
        raise


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """``" Did you mean 'additive'?"``, or nothing when nothing known is close. ``prefix`` is
    written before the name, such as ``--``, and not compared.
    """
    close = get_close_matches(str(name), list(known), n=1, cutoff=0.6)
    return f" Did you mean {prefix + close[0]!r}?" if close else ""


def listing(names: Iterable[str], most: int = 12) -> str:
    """Names joined by commas, long ones cut, and all after ``most``."""
    names = [name if len(name) <= 60 else f"{name[:57]}..." for name in sorted(names)]
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "") or "none"
