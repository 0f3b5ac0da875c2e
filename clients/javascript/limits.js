// What a user's device accepts at most, whatever a server asks; the defaults are those of `croupier.client.Limits`.

import { demand } from "./problems.js";
import { SUITE } from "./sealing.js";
import { SERVERS } from "./statements.js";

export const ADMISSIONS = ["everybody", "tickets", "tokens"];
export const TRUSTS = ["two-servers", "devices", "shuffler", "nobody"];
const HIDE_EACH_OTHER = ["devices", "shuffler"]; // the trusts under which the users of a batch do

export const LIMITS = Object.freeze({
  epsilon: 2, // of one turn
  delta: 1e-5,
  users: 32, // the smallest batch, where its users hide each other
  honestFraction: 0.9, // no promise that needs a larger share of them to be honest
  epsilonPerPeriod: 4, // of all turns within any period
  deltaPerPeriod: 1e-4,
  shortestPeriod: 86_400, // seconds: no period is taken for a shorter one
  longestPeriod: 366 * 86_400, // and no experiment may have a longer one
  suites: [SUITE.name], // all that a browser can do
  trust: TRUSTS, // whom the device may have to trust
  admission: ADMISSIONS,
  frontNoise: true, // where users hide each other, only batches to which the front adds a whole noise of its own
  sharedKeys: false, // no two servers with one key
  plainHttp: false, // no plain http beyond this machine
});

const isAmong = (known) => (value) =>
  Array.isArray(value) && value.length > 0 && value.every((one) => known.includes(one));
const isTruth = (value) => typeof value === "boolean";
const KINDS = {
  suites: isAmong(LIMITS.suites), trust: isAmong(TRUSTS), admission: isAmong(ADMISSIONS),
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
export function checkLimits({ privacy, recipe, trust, admission, suite, keys, urls }, limits) {
  const within = (value, most, what) => refuse(!(value <= most), `${what} ${value} is above ${most}`);
  within(privacy.epsilon, limits.epsilon, "ε =");
  within(privacy.delta, limits.delta, "δ =");
  within(privacy.period, limits.longestPeriod, "a period in seconds of");
  within(privacy.honest_fraction, limits.honestFraction, "a share of honest users of");
  refuse(!limits.trust.includes(trust), `the experiment trusts ${trust}`);
  checkUsers({ trust, users: recipe.smallest }, limits);
  refuse(!limits.admission.includes(admission.kind), `the experiment admits ${admission.kind}`);
  const bare = HIDE_EACH_OTHER.includes(trust) && !recipe.front_noise;
  refuse(limits.frontNoise && bare, "no server adds noise of its own");
  refuse(!limits.suites.includes(suite), `reports are sealed by ${suite}`);
  const shared = ["seal", "verify"].find((kind) => keys.analyzer[kind] === keys.front[kind]);
  refuse(!limits.sharedKeys && shared, `both servers have one key (${shared})`);
  for (const server of SERVERS) checkAddress(urls[server], limits);
}

export function checkUsers({ trust, users }, limits) {
  const few = HIDE_EACH_OTHER.includes(trust) && users < limits.users;
  refuse(few, `a batch of ${users} is below ${limits.users}`);
}

// Refuses an address that others on the way could read along.
export function checkAddress(address, { plainHttp }) {
  const { protocol, hostname } = URL.canParse(address) ? new URL(address) : {};
  demand(protocol === "https:" || protocol === "http:", "malformed", `the address ${address}`);
  const here = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
  refuse(!plainHttp && protocol === "http:" && !here, `${address} is plain http beyond this machine`);
}
