"""What a command line asks to train, once it was found possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonargparse import Namespace

    from tfzoo.commands.recipe import Draft
    from tfzoo.commands.trainer import Parser


@dataclass
class Job:
    """A training that was found possible."""

    name: str
    task: Any
    draft: Draft
    parser: Parser
    values: Namespace
    recipe: dict[str, Any]
