// What a user's device accepts at most, whatever a server asks; the defaults are those of `croupier.client.Limits`.

import { demand } from "./problems.js";
import { SUITE } from "./sealing.js";
import { SERVERS } from "./statements.js";

export const ADMISSIONS = ["everybody", "tickets", "tokens"];

export const LIMITS = Object.freeze({
  epsilon: 2, // of one turn
  delta: 1e-5,
  users: 32, // the smallest batch
  honestFraction: 0.9, // no promise that needs a larger share of them to be honest
  epsilonPerPeriod: 4, // of all turns within any period
  deltaPerPeriod: 1e-4,
  shortestPeriod: 86_400, // seconds: no period is taken for a shorter one
  longestPeriod: 366 * 86_400, // and no experiment may have a longer one
  suites: [SUITE.name], // all that a browser can do
  admission: ADMISSIONS,
  frontNoise: true, // only experiments whose front adds a whole noise of its own
  sharedKeys: false, // no two servers with one key
  plainHttp: false, // no plain http beyond this machine
});

const isAmong = (known) => (value) =>
  Array.isArray(value) && value.length > 0 && value.every((one) => known.includes(one));
const isTruth = (value) => typeof value === "boolean";
const KINDS = {
  suites: isAmong(LIMITS.suites), admission: isAmong(ADMISSIONS),
  frontNoise: isTruth, sharedKeys: isTruth, plainHttp: isTruth,
};
const isNumber = (value) => Number.isFinite(value) && value >= 0;

export function limitsOf(own = {}) {
  const limits = { ...LIMITS, ...own };
  for (const [name, value] of Object.entries(limits)) {
    const known = Object.hasOwn(LIMITS, name) && (KINDS[name] ?? isNumber)(value);
    demand(known, "malformed", `limit ${name} = ${value}`);
  }
  return Object.freeze(limits);
}

const refuse = (condition, detail) => demand(!condition, "beyond-limits", detail);

// Refuses an experiment that promises less than this device wants.
export function checkLimits({ privacy, recipe, admission, suite, keys, urls }, limits) {
  const within = (value, most, what) => refuse(!(value <= most), `${what} ${value} is above ${most}`);
  within(privacy.epsilon, limits.epsilon, "ε =");
  within(privacy.delta, limits.delta, "δ =");
  within(privacy.period, limits.longestPeriod, "a period in seconds of");
  within(privacy.honest_fraction, limits.honestFraction, "a share of honest users of");
  checkUsers(recipe.smallest, limits);
  refuse(!limits.admission.includes(admission.kind), `the experiment admits ${admission.kind}`);
  refuse(limits.frontNoise && !recipe.front_noise, "the front adds no noise of its own");
  refuse(!limits.suites.includes(suite), `reports are sealed by ${suite}`);
  const shared = ["seal", "verify"].find((kind) => keys.analyzer[kind] === keys.front[kind]);
  refuse(!limits.sharedKeys && shared, `both servers have one key (${shared})`);
  for (const server of SERVERS) checkAddress(urls[server], limits);
}

export function checkUsers(users, limits) {
  refuse(users < limits.users, `a batch of ${users} is below ${limits.users}`);
}

// Refuses an address that others on the way could read along.
export function checkAddress(address, { plainHttp }) {
  const { protocol, hostname } = URL.canParse(address) ? new URL(address) : {};
  demand(protocol === "https:" || protocol === "http:", "malformed", `the address ${address}`);
  const here = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
  refuse(!plainHttp && protocol === "http:" && !here, `${address} is plain http beyond this machine`);
}
