"""Workflows, forms and project files name what exists, and say what pyproject.toml says."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import tfzoo

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def read(path):
    found = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def sessions():
    """Of the noxfile."""
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("nox.session" in ast.unparse(one) for one in node.decorator_list)
    }


def run_sessions(job):
    """The sessions that a job runs; those of its matrix in place of the expression."""
    matrix = job.get("strategy", {}).get("matrix", {})
    words = " ".join(re.findall(r"^nox -s (.+)$", "\n".join(commands(job)), re.MULTILINE))
    return words.replace("${{ matrix.session }}", " ".join(matrix.get("session", []))).split()


def commands(job):
    return [step["run"] for step in job["steps"] if "run" in step]


def test_workflows_run_sessions_that_exist():
    ran = {
        path.stem: {one for job in read(path)["jobs"].values() for one in run_sessions(job)}
        for path in WORKFLOWS
    }
    assert ran == {
        "ci": {"tests", "lint", "package"},
        "docs": {"docs"},
        "nightly": {"nightly", "lowest", "highest"},
        "release": {"lint", "package"},
    }
    assert set().union(*ran.values()) <= sessions()
    assert ran["ci"] == set(re.findall(r"\b(tests|lint|package)\b", (ROOT / ".ci/run").read_text()))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_can_do_no_more_than_it_needs(path):
    """Reads the repository; only publishing asks for more, and holds no secret."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "group" in workflow["concurrency"]
    assert "secrets." not in path.read_text("utf-8")
    for name, job in workflow["jobs"].items():
        more = job.get("permissions", {})
        assert (name == "publish") == bool(more)
        assert set(more) <= {"id-token", "pages"}
        assert bool(more) == ("environment" in job)
        assert job["timeout-minutes"] <= 350
        for step in job["steps"]:
            uses = step.get("uses", "@v1")
            assert re.search(r"@(release/)?v\d+$", uses), uses
            if uses.startswith("actions/checkout@"):
                assert step["with"] == {"persist-credentials": False}


def test_the_citation_and_the_changelog_are_of_this_version():
    citation = read(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == tfzoo.__version__
    assert (citation["title"], citation["license"]) == (PROJECT["name"], PROJECT["license"])
    assert citation["authors"] == PROJECT["authors"]
    assert citation["keywords"] == PROJECT["keywords"]
    assert citation["abstract"] == PROJECT["description"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## \[([^\]]+)\]", changes, re.MULTILINE)[0] == tfzoo.__version__
