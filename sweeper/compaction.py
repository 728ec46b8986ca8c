"""`python -m sweeper.compaction`, which is `python -m sweeper compact` (`sweeper.commands.compaction`)."""

from sweeper.commands.compaction import app

if __name__ == "__main__":
    app()
