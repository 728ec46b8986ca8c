"""Which of the entries that a space varies make its settings good: the share of their variance that each explains.

The value of a setting is the mean of its metric over training seeds, and only settings with a rank count. An entry
groups them, by its values or, if these are many numbers, in bins of equally many settings. Its share is the variance
between the groups, less what as many groups of noise would have (epsilon squared), so that an entry without effect has
about 0. The share is that of the entry alone, and effects of combinations are in none. Where a sampler chose the
settings, entries go together, and shares may add up to more than 1.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sweeper.analysis.ranking import Ranking, merit
from sweeper.messages import counted
from sweeper.space.scales import Varied
from sweeper.tables import table, value_text
from sweeper.trial.entry_names import column_name, is_number, value_order

MOST_BINS = 8
MOST_WORDS = 6  # values of an entry that are listed
WITHIN_CHANCE = "within chance"


def importance(sweep: str, ranked: Ranking, varied: Mapping[str, Varied]) -> pd.DataFrame | None:
    """The varied entries of a sweep, the most telling first, each with its share and with the values that are better.

    None if the settings are too few, or equally good.
    """
    rows = []
    for path, space in varied.items():
        having = [each for each in ranked.settings if path in each.entries]
        means = np.array([merit(each, ranked.goal) for each in having])
        groups = _groups([each.entries[path] for each in having], space.scale is not None)
        if found := _explained(groups, means):
            share, better = found
            rows.append({"entry": column_name(path), "share": share, "better": better, "settings": len(having)})
    if not rows:
        return None
    meaning = "share of the variance of the means, by each entry alone; of noise it is about 0 % on average"
    shown = table(
        sorted(rows, key=lambda row: -row["share"]),
        f"{sweep}: what explains the {ranked.goal.metric} of {counted(len(ranked.settings), 'setting')}",
        "; ".join(filter(None, (meaning, ranked.unranked))),
        {"share": "per cent"},
    )
    return shown.drop(columns="settings") if all(row["settings"] == len(ranked.settings) for row in rows) else shown


def _groups(values: Sequence[Any], drawn: bool) -> list[tuple[Any, list[int]]]:
    """The places of equal values with this value, in order; of many numbers those of a bin, with its median."""
    count = len(values)
    bins = min(MOST_BINS, max(2, round(math.sqrt(count))))
    different = sorted(set(values), key=value_order)
    if not all(map(is_number, different)) or len(different) <= (bins if drawn else max(bins, count // 3)):
        return [(value, [place for place, own in enumerate(values) if own == value]) for value in different]
    numbers = np.array(values, float)
    ranks = pd.Series(numbers).rank().to_numpy()  # equal numbers share a rank, and so a bin
    of_bin = np.ceil(ranks * bins / count)
    binned = [np.flatnonzero(of_bin == number) for number in np.unique(of_bin)]
    return [(float(np.median(numbers[places])), places.tolist()) for places in binned]


def _explained(groups: Sequence[tuple[Any, list[int]]], means: np.ndarray) -> tuple[float, str] | None:
    """The share of the variance of the means that groups explain, and which are better; None if nobody can tell.

    Large means are the good ones.
    """
    count, freedom = len(means), len(groups) - 1
    total = float(((means - means.mean()) ** 2).sum()) if count else 0.0
    if freedom < 1 or count - freedom < 3 or not total > 0 or not math.isfinite(total):
        return None
    of_groups = [means[places] for _, places in groups]
    within = sum(float(((own - own.mean()) ** 2).sum()) for own in of_groups)
    error = within / (count - freedom - 1)
    between = total - within
    share = max(0.0, (between - freedom * error) / total)
    # Of noise the share before the correction has a beta distribution.
    expected = freedom / (count - 1)
    deviation = math.sqrt(2 * freedom * (count - 1 - freedom) / ((count - 1) ** 2 * (count + 1)))
    if between / total <= expected + 2 * deviation:
        return share, WITHIN_CHANCE
    merits = [float(own.mean()) for own in of_groups]
    values = [value for value, _ in groups]
    if not all(map(is_number, values)):
        best_first = [value_text(values[place]) for place in np.argsort([-merit for merit in merits], kind="stable")]
        return share, " > ".join(best_first[:MOST_WORDS] + ["…"] * (len(best_first) > MOST_WORDS))
    best = int(np.argmax(merits))

    def beats(place: int) -> bool:
        """Whether the best group is better than another by more than the standard error of the difference."""
        noise = math.sqrt(error / len(of_groups[best]) + error / len(of_groups[place]))
        return merits[best] - merits[place] > noise

    if best not in (0, freedom) and beats(0) and beats(freedom):
        return share, f"best near {value_text(float(f'{values[best]:.3g}'))}"
    return share, "larger is better" if merits[-1] > merits[0] else "smaller is better"
