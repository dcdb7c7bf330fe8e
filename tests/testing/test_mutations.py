"""What the search for untested lines changes, and what it leaves alone."""

import ast

from tests.testing.mutations import mutations, sample

SOURCE = '''
"""A module."""
from typing import Any

LIMIT: int = 3


def clamp(x: int, most: int = LIMIT, *, strict: bool = True) -> int | None:
    """The smaller one."""
    if x > most and not strict:
        raise ValueError(f"{x + 1} is over {most - 1}")
    x += 1
    print(x, most, end="")
    return None if x == 0 else x
'''
CHANGES = {
    "3  ->  4",
    "True  ->  False",
    "if x > most and (not strict): ...  ->  if not (x > most and (not strict)): ...",
    "x > most and (not strict)  ->  x > most or not strict",
    "x > most  ->  x >= most",
    "not strict  ->  strict",
    "x += 1  ->  x -= 1",
    "x += 1  ->  pass",
    "1  ->  2",
    "print(x, most, end='')  ->  pass",
    "print(x, most, end='')  ->  print(most, x, end='')",
    "print(x, most, end='')  ->  print(x, most)",
    "None if x == 0 else x  ->  None if not x == 0 else x",
    "x == 0  ->  x != 0",
    "0  ->  1",
}


def test_code_is_changed_and_annotations_docstrings_and_messages_are_not():
    found = mutations("clamp.py", SOURCE)
    assert {str(one).partition(": ")[2] for one in found} == CHANGES
    assert len(found) == len(CHANGES)


def test_each_change_is_the_only_one_and_reaches_a_statement_a_function_or_all():
    plain = ast.unparse(ast.parse(SOURCE))
    for one in mutations("clamp.py", SOURCE):
        changed = ast.unparse(one.tree(SOURCE))
        pairs = zip(plain.splitlines(), changed.splitlines(), strict=True)
        assert sum(old != new for old, new in pairs) == 1, one
        of_all, of_default = one.reach[1] > len(plain), one.reach[1] - one.reach[0] > 3
        assert (one.line > 8) == (not of_all and not of_default)


def test_a_sample_has_one_change_of_each_line_and_is_the_same_for_one_seed():
    every = mutations("clamp.py", SOURCE)
    chosen = sample(every, 5, seed=1)
    assert chosen == sample(every, 5, seed=1)
    assert len({one.line for one in chosen}) == 5
    assert len(sample(every, 100, seed=1)) == len({one.line for one in every})
