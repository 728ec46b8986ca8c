"""Whether a label can be drawn: what stands between two $ is a formula of matplotlib's."""

import functools


@functools.cache
def is_text(label: str) -> bool:
    """Whether a label has no formula, or valid ones only."""
    signs = label.count("$") - label.count(r"\$")
    if signs == 0 or signs % 2:  # then no formula is meant
        return True
    from matplotlib.mathtext import MathTextParser  # takes a third of a second to import

    try:
        MathTextParser("path").parse(label)
    except (ValueError, RecursionError):
        return False
    return True
