"""`python -m sweeper.export`, which is `python -m sweeper export` (`sweeper.commands.export`)."""

from sweeper.commands.export import app

if __name__ == "__main__":
    app()
