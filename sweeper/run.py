"""`python -m sweeper.run`, which is `python -m sweeper run` (`sweeper.commands.run`)."""

from sweeper.commands.run import app

if __name__ == "__main__":
    app()
