"""`python -m sweeper.status`, which is `python -m sweeper status` (`sweeper.commands.status`)."""

from sweeper.commands.status import app

if __name__ == "__main__":
    app()
