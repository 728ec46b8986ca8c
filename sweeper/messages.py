"""How things are said, wherever they are said."""

import re


def duration(seconds: float) -> str:
    """Such as "45 s", "12 min", "3 h 20 min", "4 d 5 h"."""
    minutes = round(seconds / 60)
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def redacted(url: str) -> str:
    """The URL, or any text with URLs in it, without the keys that stand before an @ or in its parameters.

    A key may hold the very characters that a URL must not: then everything up to the last @ goes.
    """
    return _PARAMETER.sub(r"\1...", _USER.sub(r"\1", url))


_USER = re.compile(r"""(\w://)(?:[^\s'"?]*:[^\s'"?]*@|[^/@\s'"]*@)""")
_PARAMETER = re.compile(r"""([?&]\w*(?:secret|token|password|key)\w*=)[^&\s'"]+""", re.IGNORECASE)
