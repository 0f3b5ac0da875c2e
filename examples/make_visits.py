"""Makes examples/visits.csv: who came back to a museum's page, by minutes on it and pages seen. Invented, by a seed."""

import csv
import sys

import numpy as np

USERS, VISITS = 80, 70


def rows() -> list[tuple[str, int, int, int]]:
    """Visits of 20 minutes or more mostly lead to another one; pages say nothing, and one in twenty is otherwise."""
    rng = np.random.default_rng(2110)
    made = []
    for user in range(USERS):
        minutes, pages = rng.integers(0, 60, VISITS), rng.integers(1, 20, VISITS)
        again = (minutes >= 20) ^ (rng.random(VISITS) < 0.05)
        made += [(f"u{user:02}", int(m), int(p), int(a)) for m, p, a in zip(minutes, pages, again, strict=True)]
    return made


if __name__ == "__main__":
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("user", "minutes", "pages", "again"))
    writer.writerows(rows())
