"""Try the installed package where nothing of its source is: ``python -m tests.wheel DIST``; run by
``nox -s package``.

DIST is the folder of the wheel that was installed, and of the sdist.
"""

import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tests.typed import typed

ROOT = Path(__file__).parents[1]
RECIPES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "recipes").rglob("*.yaml"))
SMALL = (
    *typed(
        "--data.dataset.train 200 --data.dataset.val 4 --data.dataset.test 4",
        "--data.dataset.long 4",
    ),
    *typed("--model.dim 16 --model.heads 2 --model.layers 1 --search.max_length 0.1"),
    *typed("--trainer.max_steps 2 --trainer.accelerator cpu --trainer.devices 1"),
)


def one(dist: Path, ending: str) -> Path:
    (found,) = dist.glob(f"tfzoo-*{ending}")
    return found


def look_into(wheel: Path, sdist: Path) -> None:
    """What is in the two files, and what is not."""
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        (metadata,) = (name for name in inside if name.endswith("dist-info/METADATA"))
        readme = archive.read(metadata).decode()
    links = re.findall(r"\]\((?!https?://)[^)]*\)", readme)
    assert "# tfzoo" in readme
    assert not links, f"these links lead nowhere on a package index: {links}"
    top = {name.partition("/")[0] for name in inside}
    assert {name.partition("-")[0] for name in top} == {"tfzoo"}, top
    assert {f"tfzoo/{recipe}" for recipe in RECIPES} | {"tfzoo/py.typed"} <= inside
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "README.md",
        "README.zh-CN.md",
        "CHANGELOG.md",
        "LICENSE",
        "pyproject.toml",
        "constraints.txt",
        "noxfile.py",
        "docs/start.md",
        "tests/wheel.py",
    }
    assert wanted | set(RECIPES) <= packed, (wanted | set(RECIPES)) - packed


def main(dist: Path) -> None:
    look_into(one(dist, ".whl"), one(dist, ".tar.gz"))
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder)

        def run(*command: str) -> str:
            print("$", *command, flush=True)
            words = [str(Path(sysconfig.get_path("scripts"), command[0])), *command[1:]]
            done = subprocess.run(words, cwd=empty, stdout=subprocess.PIPE, text=True, check=True)
            return done.stdout

        assert (
            ROOT / "src"
            not in Path(run("python", "-c", "import tfzoo; print(tfzoo.__file__)").strip()).parents
        )
        assert run("tfzoo", "--version").startswith("tfzoo ")
        assert "scaled_dot_product" in run("tfzoo", "list")
        lines = run("tfzoo", "recipes") + run("tfzoo", "recipes", "ablations")
        listed = [line.split()[0] for line in lines.splitlines() if line.startswith(" ")]
        assert sorted(f"recipes/{name}.yaml" for name in listed) == RECIPES
        assert "task: translation" in run("tfzoo", "recipes", "translation/numbers")
        run("tfzoo", "fit", "translation/numbers", *SMALL, "--run", "run")
        assert (empty / "run/checkpoints/last.ckpt").is_file()
    print("the wheel works")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
