"""Makes examples/tips.csv: which tip got people to finish a course, in a trial that gave tips at random. Invented."""

import csv
import sys

import numpy as np

ROWS = 3_000
TIPS = ("checklist", "mail", "video")


def rows() -> list[tuple[int, int, int, str, int]]:
    """Young people take to the video, the busy ones to the checklist, and a mail is good for everybody, a little."""
    rng = np.random.default_rng(2301)
    age, sessions, evening = rng.integers(18, 80, ROWS), rng.integers(0, 30, ROWS), rng.integers(0, 101, ROWS)
    chance = {
        "checklist": 0.30 + 0.45 * (sessions / 30.0 - 0.5),
        "mail": np.full(ROWS, 0.38),
        "video": 0.33 - 0.60 * ((age - 18) / 62.0 - 0.5),
    }
    tips = rng.integers(0, len(TIPS), ROWS)
    finished = [int(rng.random() < min(max(chance[TIPS[tip]][row], 0.02), 0.98)) for row, tip in enumerate(tips)]
    columns = (age.tolist(), sessions.tolist(), evening.tolist(), [TIPS[tip] for tip in tips], finished)
    return list(zip(*columns, strict=True))


if __name__ == "__main__":
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("age", "sessions", "evening", "tip", "finished"))
    writer.writerows(rows())
