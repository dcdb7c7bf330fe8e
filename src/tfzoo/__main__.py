"""``python -m tfzoo`` is ``tfzoo``."""

from tfzoo.commands.main import run

if __name__ == "__main__":
    run()
