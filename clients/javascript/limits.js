// What a user's device accepts at most, whatever a server asks; the defaults are those of `croupier.client.Limits`.

import { demand } from "./problems.js";

export const LIMITS = Object.freeze({
  epsilon: 2, // of one turn
  delta: 1e-5,
  users: 32, // the smallest batch
  honestFraction: 1, // no promise that needs a larger share of them to be honest
  epsilonPerPeriod: 4, // of all turns that the ledger covers
  deltaPerPeriod: 1e-4,
  shortestPeriod: 86_400, // seconds: the ledger never renews sooner
  longestPeriod: 366 * 86_400, // and no experiment keeps it from renewing for longer
});

export function limitsOf(own = {}) {
  const limits = { ...LIMITS, ...own };
  for (const [name, value] of Object.entries(limits)) {
    const known = Object.hasOwn(LIMITS, name) && Number.isFinite(value) && value >= 0;
    demand(known, "malformed", `limit ${name} = ${value}`);
  }
  return Object.freeze(limits);
}

export function checkPromise({ privacy, recipe }, limits) {
  const within = (value, most, what) => demand(value <= most, "beyond-limits", `${what} ${value} is above ${most}`);
  within(privacy.epsilon, limits.epsilon, "ε =");
  within(privacy.delta, limits.delta, "δ =");
  within(privacy.period, limits.longestPeriod, "a period in seconds of");
  within(privacy.honest_fraction, limits.honestFraction, "a share of honest users of");
  checkUsers(recipe.smallest, limits);
}

export function checkUsers(users, limits) {
  demand(users >= limits.users, "beyond-limits", `a batch of ${users} is below ${limits.users}`);
}
