"""`python -m sweeper.query`, which is `python -m sweeper query` (`sweeper.commands.query`)."""

from sweeper.commands.query import app

if __name__ == "__main__":
    app()
