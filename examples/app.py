"""Ten lines in an app: show what the experiment says, report privately whether it worked."""

import random
import sys

from croupier.client import Client, Limits

analyzer, experiment = sys.argv[1], sys.argv[2]
with Client(analyzer, account="croupier-account.json", limits=Limits(epsilon=1.0)) as client:
    client.resume()
    turn = client.play(experiment, patience=10)
    print("showing", turn.arm_name)
    client.report(turn, reward=float(random.random() < 0.5))
    print("reported; ε left in this period:", client.left)
