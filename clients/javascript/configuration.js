// What an experiment says of itself, and what it may ask of anyone who believes it: configurations and offers.

import { fromBase64 } from "./bytes.js";
import { ADMISSIONS, TRUSTS } from "./limits.js";
import { readMechanism } from "./mechanism.js";
import { isPersonal } from "./personal.js";
import { turnDelta } from "./privacy.js";
import { demand } from "./problems.js";
import { checkKeys, isSame, isWhole, readJson } from "./reading.js";
import { SUITE } from "./sealing.js";
import { SERVERS } from "./statements.js";
import { readTokenKey } from "./tokens.js";

const ROUNDING = 1e-8; // relative, as the servers allow themselves
const VERSION = 2;
const VALIDITIES = ["prio3", "none"];
const isHash = (value) => fromBase64(value).length === 32;
const isText = (value) => typeof value === "string";

// What is shown to people: short, in one line, with nothing in it that changes what is around it.
const LONGEST_WORDS = 1000;
const NO_WORDS = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/u;
const isWords = (text) => isText(text) && [...text].length <= LONGEST_WORDS && !NO_WORDS.test(text);
const isBetween = (value, low, high) => typeof value === "number" && value >= low && value <= high;

export function checkName(name) {
  demand(isText(name) && /^[a-z0-9][a-z0-9-]{0,62}$/.test(name), "malformed", `the name ${name}`);
}

function checkPrivacy(privacy) {
  checkKeys("privacy", privacy, "epsilon delta honest_fraction unit period");
  const { epsilon, delta, honest_fraction: honest, unit, period } = privacy;
  const numbers = isBetween(epsilon, Number.MIN_VALUE, Number.MAX_VALUE) && isBetween(delta, 0, 1) && delta < 1;
  const whom = isBetween(honest, 0, 1) && isWords(unit) && isWhole(period, 1);
  demand(numbers && whom, "malformed", "privacy");
}

// When a device reports a turn: how many seconds after it a report is taken, the window in which it is sent, what is
// reported where nothing was recorded, and whether a device may report more than once.
function checkReports(reports) {
  checkKeys("reports", reports, "within at default? repeat?");
  const { within, at, repeat = true } = reports;
  const window = Array.isArray(at) && at.length === 2 && at.every((end) => isBetween(end, 0, within)) && at[0] <= at[1];
  demand(isWhole(within, 1, 2 ** 31) && window, "malformed", "when turns are reported");
  demand(typeof repeat === "boolean", "malformed", "whether reports repeat");
}

function checkArms(title, arms, retired, chosen) {
  demand(isWords(title) && Array.isArray(arms) && arms.every(isWords), "malformed", "title or arms");
  const known = Array.isArray(retired) && retired.every((arm) => isWhole(arm, 0, arms.length - 1));
  demand(known && retired.every((arm, at) => !at || retired[at - 1] < arm), "malformed", "the arms that are retired");
  demand(chosen === undefined || isWhole(chosen, 0, arms.length - 1), "malformed", "the arm that was chosen");
}

// How the issuer's key of each kind is read, where there is one.
const ISSUERS = {
  tickets: (key) => demand(key.length === SUITE.keyLength, "malformed", "the issuer's key"),
  tokens: readTokenKey,
};

function checkAdmission(admission, { analyzer }) {
  const { kind, issuer } = admission ?? {};
  demand(ADMISSIONS.includes(kind), "malformed", `admission of ${kind}`);
  checkKeys("admission", admission, kind in ISSUERS ? "kind issuer" : "kind");
  if (!(kind in ISSUERS)) return;
  ISSUERS[kind](fromBase64(issuer));
  demand(issuer !== analyzer.verify, "malformed", "an analyzer that issues tickets could admit whom it likes");
}

// Whether reports prove that they are in range; `key` is the hash of the key that both servers check proofs with.
function checkValidity({ validity, trust }) {
  const { kind, key } = validity ?? {};
  demand(VALIDITIES.includes(kind), "malformed", `validity by ${kind}`);
  checkKeys("validity", validity, kind === "prio3" ? "kind key" : "kind");
  if (kind === "none") return;
  demand(isHash(key), "malformed", "the hash of the key of proofs");
  demand(trust === "two-servers", "malformed", `proofs where the trust is ${trust}`);
}

function checkServer(server, keys, url) {
  checkKeys(`the ${server}'s keys`, keys, "seal verify");
  for (const key of [keys.seal, keys.verify]) {
    demand(fromBase64(key).length === SUITE.keyLength, "malformed", `a key of the ${server}`);
  }
  demand(isWords(url), "malformed", `the ${server}'s address`);
}

// Reads a configuration's text; anything unknown, missing or inconsistent is refused.
export function readConfiguration(text) {
  const configuration = readJson("a configuration", text);
  const promised = "program recipe trust reports privacy admission validity";
  const keys = `version experiment revision title arms ${promised} suite keys urls`;
  checkKeys("a configuration", configuration, `${keys} retired? chosen? public?`);
  const { version, experiment, revision, title, arms, retired = [], chosen, program, recipe, trust } = configuration;
  demand(version === VERSION, "unsupported", `version ${version} of configurations`);
  demand(configuration.suite === SUITE.name, "unsupported", `the suite ${configuration.suite}`);
  checkName(experiment);
  demand(isWhole(revision, 0, 2 ** 31 - 1), "malformed", `revision ${revision}`);
  checkArms(title, arms, retired, chosen);
  demand(typeof (configuration.public ?? true) === "boolean", "malformed", "whether results are public");
  demand(TRUSTS.includes(trust), "malformed", `trust in ${trust}`);
  checkReports(configuration.reports);
  const isKind = isText(program?.kind) && /^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,126}$/.test(program.kind);
  demand(isKind, "malformed", `the program ${program?.kind}`);
  // Whether a device comes, or comes again, must not tell what it chose.
  const isSafe = !program.features || (isSame(arms, program.actions) && !retired.length);
  demand(isSafe, "malformed", "arms that are not the actions, or some that are retired");
  demand(isWhole(recipe?.smallest, 1), "malformed", "the smallest batch");
  demand(typeof recipe.front_noise === "boolean", "malformed", `front_noise = ${recipe.front_noise}`);
  checkPrivacy(configuration.privacy);
  checkKeys("keys", configuration.keys, SERVERS.join(" "));
  checkKeys("addresses", configuration.urls, SERVERS.join(" "));
  for (const server of SERVERS) checkServer(server, configuration.keys[server], configuration.urls[server]);
  checkAdmission(configuration.admission, configuration.keys);
  checkValidity(configuration);
  return configuration;
}

const sorted = (_, value) =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value;

// What no later revision may change, as text: equal promises have equal texts. The key of proofs may be another.
export const promiseOf = ({ program, recipe, trust, reports, privacy, admission, validity: { kind } }) =>
  JSON.stringify({ program, recipe, trust, reports, privacy, admission, validity: { kind } }, sorted);

export const verifyKeys = ({ keys }) => Object.fromEntries(SERVERS.map((server) => [server, keys[server].verify]));

// Reads an offer's text: {experiment, configuration, number, arm, odds, batches: [{number, pin, text, plan}], epoch,
// rule}, where `rule` is the hash of the one that devices choose by, if they do.
export function readOffer(text) {
  const offer = readJson("an offer", text);
  checkKeys("an offer", offer, "version experiment configuration offer arm odds batches block? rule?");
  const { version, experiment, configuration, offer: number, arm, odds, batches, block, rule = null } = offer;
  demand(version === VERSION, "unsupported", `version ${version} of offers`);
  demand(isWhole(number, 0, 2 ** 32 - 1) && isHash(configuration), "malformed", "an offer");
  demand(arm === null || isWhole(arm, 0), "malformed", `arm ${arm}`);
  demand(odds === null || (typeof odds === "number" && odds > 0 && odds <= 1), "malformed", `odds ${odds}`);
  demand(Array.isArray(batches) && isWhole(batches.length, 1, 64), "malformed", "not 1 to 64 batches");
  for (const batch of batches) {
    checkKeys("a batch", batch, "number configuration mechanism");
    const known = isWhole(batch.number, 0, 2 ** 32 - 1) && isHash(batch.configuration);
    demand(known, "malformed", `batch ${batch.number}`);
  }
  demand(new Set(batches.map((batch) => batch.number)).size === batches.length, "malformed", "one batch twice");
  if (block !== undefined) checkBlock(block, arm, batches);
  demand(rule === null || (isHash(rule) && arm === null), "malformed", "the hash of a rule");
  const read = ({ number: batch, configuration: pin, mechanism: text }) => ({
    number: batch, pin, text, plan: readMechanism(text),
  });
  const plans = batches.map(read);
  return { experiment, configuration, number, arm, odds, batches: plans, epoch: block?.epoch ?? null, rule };
}

// Batches that close together, whose turns are dealt by the same odds in an epoch.
function checkBlock(block, arm, [{ number: own }, ...others]) {
  checkKeys("a block", block, "number epoch batches users left?");
  const { number, epoch, batches, users, left = 1 } = block;
  const isNumber = (value) => isWhole(value, 0, 2 ** 32 - 1);
  const numbers = isNumber(number) && isNumber(epoch) && isWhole(users, 1) && isWhole(left, 1);
  const known = Array.isArray(batches) && isWhole(batches.length, 1, 1024) && batches.every(isNumber);
  demand(numbers && known && new Set(batches).size === batches.length, "malformed", "a block");
  demand(arm !== null && !others.length && batches.includes(own), "malformed", "a block without this offer's batch");
}

// What all mechanisms of an experiment have in common, whatever the size of their batch.
function recipeOf({ way, mechanism, frontShares, names, parts }) {
  if (way === "several") {
    const epsilonOf = (part) => part.mechanism.guarantee.epsilon;
    const sums = parts.map((part, at) => ({ ...recipeOf(part), name: names[at], epsilon: epsilonOf(part) }));
    const [{ protocol, values, front_noise }] = sums;
    return { kind: mechanism.kind, protocol, values, front_noise, sums };
  }
  const { protocol, constants, values, side = "unbiased", precision, carrier } = mechanism;
  const { kind, model, universe, ballot } = mechanism;
  const common = { constants, front_noise: frontShares > 0 };
  if (way === "labels") return { ...common, kind, model, universe, ballot: { kind: ballot.kind, side: ballot.side } };
  if (way === "sharedCounts") {
    return { ...common, kind, model, universe, ballot: { kind: ballot.kind, field: ballot.field } };
  }
  // Whatever batch a report falls into, it means the same.
  const encoding = ["shares", "vectors"].includes(way) ? { precision, carrier, noise_from: mechanism.noise_from } : {};
  return { ...common, protocol, values, side, ...encoding };
}

// The product of two doubles may lie a little above the whole number that is meant: 0.55·100, for one.
export const mostHonest = (share, users) => Math.max(1, Math.ceil(share * users - 1e-9));

function checkBatch(plan, { recipe, trust, privacy, validity }) {
  demand(plan.trust === trust, "not-covered", `a batch that trusts ${plan.trust}, and ${trust} was signed`);
  demand(validity.kind === "none" || plan.prio3, "not-covered", "reports without proofs, and proofs were signed");
  const own = recipeOf(plan);
  for (const [name, found] of Object.entries(own)) {
    demand(isSame(found, recipe[name]), "not-covered", `${name} of a batch is not what was signed`);
  }
  // More than one encoding under one signature would let a report count under another's noise.
  const beyond = Object.keys(recipe).find((name) => name !== "smallest" && !Object.hasOwn(own, name));
  demand(beyond === undefined, "not-covered", `${beyond} was signed, and the batch has none`);
  demand(plan.users >= recipe.smallest, "not-covered", `a batch of ${plan.users}, below ${recipe.smallest}`);
  const most = mostHonest(privacy.honest_fraction, plan.users);
  demand(plan.honest <= most, "not-covered", `privacy would rest on ${plan.honest} honest users of ${plan.users}`);
}

const deltas = new Map(); // composing takes a while, and many turns are alike

function deltaOf(batches, epsilon) {
  const key = JSON.stringify([epsilon, ...batches.map((batch) => batch.text)]);
  if (deltas.size >= 256) deltas.clear();
  if (!deltas.has(key)) deltas.set(key, turnDelta(batches.map((batch) => batch.plan), epsilon));
  return deltas.get(key);
}

// Refuses an offer that goes beyond the configuration: an active server must not get more than was signed.
export async function checkOffer(offer, configuration) {
  const { experiment, arms, privacy, public: isPublic = true } = configuration;
  demand(offer.experiment === experiment, "not-covered", `an offer of ${offer.experiment}`);
  demand((offer.odds === null) !== isPublic, "not-covered", `odds of ${offer.odds}`);
  const personal = isPersonal(configuration);
  demand((offer.rule !== null) === personal, "not-covered", "a rule, or none, where devices choose by themselves");
  const played = arms.length && !personal ? offer.arm !== null && offer.arm < arms.length : offer.arm === null;
  demand(played, "not-covered", `arm ${offer.arm} of ${arms.length}`);
  for (const { plan } of offer.batches) checkBatch(plan, configuration);
  const delta = await deltaOf(offer.batches, privacy.epsilon);
  demand(delta <= privacy.delta * (1 + ROUNDING), "not-covered", `δ = ${delta}, and ${privacy.delta} is promised`);
}
