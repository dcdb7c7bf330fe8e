"""Follows keeps its word: labels are those of a search through the premise."""

from tfzoo.data.sets.follows import Follows
from tfzoo.data.table import parts


def leads(start, end, facts):
    """Whether a chain of facts leads from one name to another, found by walking."""
    reached = {start}
    for _ in facts:
        reached |= {fact[2] for fact in facts if fact[0] in reached}
    return end in reached - {start}


def test_the_label_is_what_a_walk_through_the_premise_finds():
    made = Follows(train=900)
    rows = made.splits(0)["train"]
    for pair, label in rows:
        premise, hypothesis = parts(pair)
        facts, (a, b) = premise.split(" "), hypothesis.split(">")
        assert len(set(facts)) == 7
        found = [leads(a, b, facts), leads(b, a, facts)]
        assert found == [label == "entailment", label == "contradiction"]
    shares = [sum(label == one for _, label in rows) / len(rows) for one in made.labels]
    assert min(shares) > 0.25
