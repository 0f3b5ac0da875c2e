"""A dozen lines in an app: show what the experiment says, and say whether it worked. Reports go by themselves.

python examples/app.py ANALYZER EXPERIMENT ANALYZER_KEY FRONT_KEY, with the keys that `croupier serve keys` prints.
"""

import random
import sys

from croupier.client import Client, Limits

analyzer, experiment, *keys = sys.argv[1:]
options = {"keys": dict(zip(("analyzer", "front"), keys, strict=True))} if keys else {}
with Client(analyzer, account="croupier-account.json", limits=Limits(epsilon=1.0), **options) as client:
    turn = client.play(experiment, timeout=2.0, default="plain")
    print("showing", turn.arm_name, f"(the default: {turn.why})" if turn.is_default else "")
    if client.report(turn, outcome=float(random.random() < 0.5)):
        print("recorded; reports are sent in the background, and what is not due yet at the next start")
    print("ε left in this period:", client.left)
