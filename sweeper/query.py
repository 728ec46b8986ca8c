"""`python -m sweeper.query`, which is `python -m sweeper query` (`sweeper.commands.ask`)."""

from sweeper.command_line import CommandLine
from sweeper.commands.ask import query

app = CommandLine()
app.command()(query)

if __name__ == "__main__":
    app()
