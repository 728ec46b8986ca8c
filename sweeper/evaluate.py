"""`python -m sweeper.evaluate`, which is `python -m sweeper evaluate` (`sweeper.commands.evaluate`)."""

from sweeper.commands.evaluate import app

if __name__ == "__main__":
    app()
