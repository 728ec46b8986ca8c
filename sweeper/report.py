"""`python -m sweeper.report`, which is `python -m sweeper report` (`sweeper.commands.report`)."""

from sweeper.commands.report import app

if __name__ == "__main__":
    app()
