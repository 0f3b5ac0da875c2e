"""Write vectors.json anew: `PYTHONPATH=tests python -m cases.sum_vectors`.

Run it only when the serial form gets a new version; other clients test against it.
"""

import json
from pathlib import Path

import numpy as np

from cases.protocols import SENDABLE, make
from croupier.noise import seeded
from croupier.protocols import ROWS

PATH = Path(__file__).parents[1] / "protocols" / "vectors.json"


def vector(name: str, constants: str) -> dict[str, object]:
    """One protocol's mechanism, reports, messages, view and release."""
    users = {"local-laplace": 30, "shuffled-laplace": 19, "shuffled-vectors": 19}.get(name, 3)
    mechanism = make(name, constants, epsilon=0.9, **({"dimension": 2} if ROWS[name].vectors else {})).plan(users)
    values = np.zeros((users, 2)) if mechanism.coordinates else np.arange(users) % 2
    reports = mechanism.randomize(values, seeded(1))
    release = mechanism.analyze(mechanism.collect(reports), seeded(2))
    return {
        "name": f"{name} {constants}",
        "mechanism": mechanism.to_json(),
        "reports": reports.tolist(),
        "messages": [[message.hex() for message in mechanism.pack(report)] for report in reports],
        "view": mechanism.collect(reports).tolist(),
        "release": release.to_json(),
        "sum": np.asarray(release.sum).tolist(),
    }


if __name__ == "__main__":
    lines = [json.dumps(vector(name, constants), ensure_ascii=False) for name, constants in SENDABLE]
    PATH.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
