"""A command line as it is typed."""

import shlex


def typed(*lines: str) -> list[str]:
    """Its words, as a shell takes them apart; a long one goes on in further lines."""
    return [word for line in lines for word in shlex.split(line)]
