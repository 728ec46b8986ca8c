"""`python -m sweeper.report`, which is `python -m sweeper report` (`sweeper.commands.ask`)."""

from sweeper.command_line import CommandLine
from sweeper.commands.ask import report

app = CommandLine()
app.command()(report)

if __name__ == "__main__":
    app()
