"""The server of a linear bandit: it opens batches, is told what full ones decode to, and publishes a rule.

It never sees a feature, an action or a reward. One loop runs every kind of plan:

    server = LinearServer(plan)
    while server.room:
        ...                                  # up to `server.room` users choose by `server.rule` and report
        server.arrive(users)                 # to the mechanisms of all batches in `server.open`
        for batch in server.due:
            server.release(batch.number, decoded)
"""

from __future__ import annotations

from croupier.checks import integer
from croupier.continual import Batch
from croupier.linear.findings import Findings
from croupier.linear.growing import GrowingPlan
from croupier.linear.plan import LinearPlan
from croupier.personal import Rule


class LinearServer:
    """The server of one linear bandit.

    Parameters
    ----------
    plan : what `growing_bandit`, `linear_bandit` or `sequential_linear_bandit` planned.

    Examples
    --------
    >>> from croupier.linear import growing_bandit
    >>> from croupier.noise import seeded
    >>> from croupier.personal import Context, Feature
    >>> context, source = Context((Feature("age", 18, 80),)), seeded(1)
    >>> plan = growing_bandit(5_000, context.dimension, places=2, epsilon=2.0, trust="devices")
    >>> server = LinearServer(plan)
    >>> while server.room:
    ...     [batch], users = server.open, server.room
    ...     x = context.rows(source.generator.uniform(18, 80, users))  # each on their own device
    ...     actions, control = server.rule.play(x, source)
    ...     rewards = (x[:, 0] > 0.0) == actions  # who is above 49 likes the second action
    ...     vectors = plan.moments.of(x, rewards, actions, control)
    ...     server.arrive(users)
    ...     server.release(batch.number, batch.mechanism.simulate(vectors, source).decoded)
    >>> [int(server.rule.choose(context.vector({"age": age}))) for age in (20, 75)]
    [0, 1]
    """

    def __init__(self, plan: GrowingPlan | LinearPlan) -> None:
        self.plan = plan
        self.sums = plan.sums()
        self._rule: Rule | None = None

    @property
    def open(self) -> list[Batch]:
        """The batches that the next user takes part in."""
        return self.sums.open

    @property
    def due(self) -> list[Batch]:
        """Batches that have all their users and wait to be released."""
        return self.sums.due

    @property
    def room(self) -> int:
        """Users who can come, and choose by the rule as it is, before something must be released; 0 at the end."""
        return self.sums.room

    @property
    def summed(self) -> int:
        """Users whose vectors are in the sums by now."""
        return self.sums.summed

    @property
    def rule(self) -> Rule:
        """What the next user chooses by; it changes only when a batch is released."""
        if self._rule is None:
            self._rule = self.sums.rule()
        return self._rule

    @property
    def findings(self) -> Findings:
        """What was learnt so far; of growing batches only."""
        return self.sums.findings

    def arrive(self, users: int = 1) -> None:
        """Users chose, played and reported to all open batches."""
        self.sums.arrive(integer("users", users, 1))

    def close(self) -> None:
        """End the open batch with the users that it has."""
        self.sums.close()

    def release(self, batch: int, decoded: tuple[int, ...]) -> None:
        """A full batch's view decodes to this."""
        self.sums.release(batch, decoded)
        self._rule = None

    def leave_out(self, batch: int) -> None:
        """A full batch's view cannot be used."""
        self.sums.leave_out(batch)
        self._rule = None
