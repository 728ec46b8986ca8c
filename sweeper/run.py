"""`python -m sweeper.run`, which is `python -m sweeper run` (`sweeper.commands.run`)."""

from sweeper.command_line import CommandLine
from sweeper.commands.run import run

app = CommandLine()
app.command()(run)

if __name__ == "__main__":
    app()
