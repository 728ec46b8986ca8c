"""Phrases of messages that many commands print: counts, durations, proposals, and text that is safe to show.

Each phrase exists once, so that every command says the same thing in the same words.
"""

import contextlib
import difflib  # noqa: TID251  the one place where names are compared
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


class UserError(Exception):
    """An error whose message is one clear text for the user; a command prints it and ends with the exit code `code`."""

    code = 2


def counted(number: int | float, noun: str) -> str:
    """A number with its noun, such as "1 trial", "2,000 trials" or "0.5 GPUs"; the noun's plural ends in s."""
    figure = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{figure} {inflected(number, noun, f'{noun}s')}"


def inflected(number: int | float, singular: str, plural: str) -> str:
    """The form of a word that goes with a number: "is" with 1, "are" with any other number."""
    return singular if number == 1 else plural


def duration(seconds: float) -> str:
    """Such as "45 s", "1 min 40 s", "12 min", "3 h 20 min", "4 d 5 h"."""
    minutes = round(seconds / 60)
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 599.5:
        whole, rest = divmod(round(seconds), 60)
        return f"{whole} min" + f" {rest} s" * bool(rest)
    if minutes < 100:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def speed(steps_per_second: float) -> str:
    """Such as "1,230 steps/s" or "0.42 steps/s"."""
    figure = f"{steps_per_second:,.0f}" if steps_per_second >= 10 else f"{steps_per_second:.2g}"
    return f"{figure} steps/s"


def typed(*words: str) -> str:
    """What a user types for a command of this package, by the program that this process was started as."""
    installed = sys.argv and Path(sys.argv[0]).name == "sweeper"
    return shlex.join([*(["sweeper"] if installed else ["python", "-m", "sweeper"]), *words])


def nearest_name(name: Any, known: Iterable[str]) -> str | None:
    """The known name most like the given one, if any is; capitals do not count."""
    if not isinstance(name, str):
        return None
    by_folded = {candidate.casefold(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.casefold()[:100], by_folded, n=1)
    return by_folded[matches[0]] if matches else None


def did_you_mean(nearest: str | None) -> str:
    """The end of a message that proposes a name; empty where there is no name to propose."""
    return f"; did you mean '{nearest}'?" if nearest else ""


def instead(name: Any, known: Iterable[str]) -> str:
    """The end of a message about a name that is none of those known: the nearest of these, and all of them."""
    names = list(dict.fromkeys(known))
    return f"{did_you_mean(nearest_name(name, names))} (known: {', '.join(names) or 'none'})"


def printable(text: str) -> str:
    """The text on one line, with escape sequences, other control characters and line ends spelt out.

    Text from a store, a cluster or an exception may hold control sequences, which a terminal would obey, and characters
    that reorder or hide what is beside them, which a browser obeys too.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def printable_lines(text: str) -> str:
    """As `printable`, but line ends stay."""
    return "\n".join(map(printable, text.split("\n")))


@contextlib.contextmanager
def writing(path: object) -> Iterator[None]:
    """Name the file that the block writes in an error of the system that names none, as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def one_line(text: str, most: int = 400) -> str:
    """The lines of a text as one line that can be stored.

    A long text keeps both ends: some say the reason first, others last.
    """
    line = "; ".join(filter(None, map(str.strip, text.splitlines()))).encode(errors="backslashreplace").decode()
    return line if len(line) <= most else f"{line[: most // 2]} … {line[-most // 2 :]}"


def message_of(error: BaseException) -> str:
    """The message of an error; those of plug-ins may have none that can be made."""
    try:
        return str(error)
    except Exception as second:
        return f"its message cannot be made ({type(second).__name__})"


def redacted(url: str) -> str:
    """The URL, or any text with URLs in it, without the keys that stand before an @ or in its parameters.

    A key may hold characters that are not allowed in a URL: then everything up to the last @ is removed.
    """
    return _PARAMETER.sub(r"\1...", _USER.sub(r"\1", url))


_USER = re.compile(r"""(\w://)(?:[^\s'"?]*:[^\s'"?]*@|[^/@\s'"]*@)""")
_PARAMETER = re.compile(r"""([?&]\w*(?:secret|token|password|key)\w*=)[^&\s'"]+""", re.IGNORECASE)
