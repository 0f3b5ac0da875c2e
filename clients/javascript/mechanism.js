// Mechanisms (docs/format.md) as a client reads them: checked to the last key, with the shape of their reports.

import { FIELD128, FIELD64, Residues } from "./fields.js";
import { Moments } from "./moments.js";
import { checkNoise, law, meanOf, mostBits, sentAs } from "./noise.js";
import { ONE, fixedToDouble } from "./numbers.js";
import { prio3Histogram, prio3Number, prio3SumVec } from "./prio3.js";
import { counted } from "./privacy.js";
import { Refused, demand } from "./problems.js";
import { checkKeys, isWhole, readJson } from "./reading.js";

const MOST_SLOTS = 4096;
const MOST_USERS = 10 ** 12;
const MOST_METRICS = 8;
const MOST_FRONT = 100_000; // messages of the front's own noise, where they are counted
const MOST_NUMBERS = 100_000; // of a report in shares; for vectors, bits that a proof is about
const LARGEST_SUM = 2n ** 62n; // in shares
const LEAST_MIXED = 19; // honest users, for split-and-mix
const CAP_SHARE = 0.01; // of δ, that the limit on the noise may cost

const plans = new Map(); // the same few mechanisms come again and again, and their laws take a while

// {mechanism, way, users, honest, share, slots, length, cap, excess, frontShares, front, frontExcess}, where a report
// has so many slots of so many bytes besides the one that tells a message from a dummy, and P(noise > cap) = excess.
// The front adds the noise of `frontShares` further parties in `front` slots, too few with probability frontExcess. A
// report in shares is so many `outputs` among `residues` instead, and `prio3` proves that they are in range. `trust`
// says who must be trusted.
export function readMechanism(text) {
  if (!plans.has(text)) {
    if (plans.size >= 256) plans.clear();
    try {
      const mechanism = readJson("a mechanism", text);
      plans.set(text, (Object.hasOwn(KINDS, mechanism?.kind) ? KINDS[mechanism.kind] : readSum)(mechanism));
    } catch (error) {
      if (error instanceof Refused) throw error;
      throw new Refused("malformed", `a mechanism: ${error.message}`);
    }
  }
  return plans.get(text);
}

function readSum(mechanism) {
  const keys = "version protocol constants users honest values precision share carrier guarantee";
  checkKeys("a mechanism", mechanism, `${keys} noise_from? side? front_shares?`);
  const { users, honest, values, precision, share, carrier } = mechanism;
  const { noise_from: source = "batch", side = "unbiased", front_shares: frontShares = 0 } = mechanism;
  demand(mechanism.version === 1, "unsupported", `version ${mechanism.version} of mechanisms`);
  demand(Object.hasOwn(CARRIERS, carrier?.kind), "unsupported", `the carrier ${carrier?.kind}`);
  const { trust, noise, plan: read } = CARRIERS[carrier.kind];
  // Noise that somebody else is to add would leave the value bare, unless it is in shares between those who do.
  demand(source === noise, "unsupported", `noise from the ${source} for ${carrier.kind}`);
  checkUsers(users, honest, frontShares, trust);
  demand(isWhole(precision, 1), "malformed", `precision ${precision}`);
  const moments = readValues(values);
  demand(moments === null || carrier.kind === "shared", "unsupported", `vectors by ${carrier.kind}`);
  checkNoise(share);
  checkGuarantee(mechanism.guarantee);
  const plan = { mechanism, trust, users, honest, values, moments, precision, share, carrier, side, frontShares };
  return Object.freeze({ ...plan, ...read(plan) });
}

// Several numbers of one report by name, all with as many levels, and each with a noise of its own from both servers.
function readSeveral(mechanism) {
  checkKeys("several sums", mechanism, "version kind names sums guarantee");
  const { version, names, sums, guarantee } = mechanism;
  demand(version === 1, "unsupported", `version ${version} of mechanisms`);
  demand(Array.isArray(names) && names.every((name) => isText(name) && name), "malformed", "names of numbers");
  const known = Array.isArray(sums) && sums.length === names.length && new Set(names).size === names.length;
  demand(known && isWhole(names.length, 2, MOST_METRICS), "malformed", `${names.length} names of numbers`);
  const parts = sums.map(readSum);
  const [{ users, precision, share }] = parts;
  const alike = (one) => one.way === "shares" && one.users === users && one.precision === precision;
  demand(parts.every(alike), "malformed", "sums that do not go together");
  checkGuarantee(guarantee);
  demand(guarantee.notion === "pure" && guarantee.delta === 0, "malformed", "the guarantee of several sums");
  const [prio3, form] = [prio3SumVec(names.length, precision), inShares(FIELD128, names.length)];
  const plan = { mechanism, trust: "two-servers", way: "several", users, honest: 0, names, parts, precision, share };
  return Object.freeze({ ...plan, frontShares: 0, prio3, ...form });
}

// The front adds a whole noise of its own, that of as many parties as are counted on, or none.
function checkUsers(users, honest, frontShares, trust) {
  const counted = trust === "two-servers" ? honest === 0 : isWhole(honest, 1, users);
  // Between two servers users cost a device nothing, and after a decision a batch is for all who are left.
  const known = isWhole(users, 1, trust === "two-servers" ? Number.MAX_SAFE_INTEGER : MOST_USERS) && counted;
  demand(known, "malformed", `${honest} honest users of ${users}`);
  const whole = frontShares === 0 || frontShares === honest;
  demand(whole, "malformed", `front_shares ${frontShares} where ${honest} are honest`);
}

// Numbers in a range, null, or a linear bandit's vectors. Others' reach no device can check.
function readValues(values) {
  if (values?.kind === "moments") return Moments.fromValues(values);
  demand(values?.kind === "range", "unsupported", `values of kind ${values?.kind}`);
  checkKeys("values", values, "kind low high binary clip");
  const { low, high, binary, clip } = values;
  const numbers = Number.isFinite(low) && Number.isFinite(high) && low < high && Number.isFinite(high - low);
  demand(numbers && typeof binary === "boolean" && typeof clip === "boolean", "malformed", "values");
  return null;
}

function checkGuarantee(guarantee) {
  checkKeys("a guarantee", guarantee, "notion epsilon delta neighbours unit rho? order? divergence?");
  const { epsilon, delta, neighbours, unit } = guarantee;
  demand(neighbours === "replace" && ["report", "user"].includes(unit), "malformed", "whom a guarantee is for");
  demand(epsilon >= 0 && Number.isFinite(epsilon) && delta >= 0 && delta < 1, "malformed", "a guarantee");
}

// Who must be trusted with it, who adds the noise, and what a report is.
const CARRIERS = {
  shared: { trust: "two-servers", noise: "servers", plan: sharedPlan },
  "secure-aggregation": { trust: "devices", noise: "batch", plan: residuePlan },
  "split-and-mix": { trust: "shuffler", noise: "batch", plan: piecesPlan },
  "shuffled-messages": { trust: "shuffler", noise: "batch", plan: messagesPlan },
};

// The encoded value, in shares between two servers, each of which adds a whole noise to every number.
function sharedPlan({ users, moments, precision, share, carrier, side }) {
  checkKeys("shares", carrier, "kind field");
  const { field, families } = moments ? IN_SHARES.vectors : IN_SHARES.numbers;
  demand(carrier.field === field, "unsupported", `a sum in the field ${carrier.field}`);
  demand(families.includes(share.family), "unsupported", `${share.family} from the servers`);
  demand(side === "unbiased", "malformed", `side ${side} of a sum in shares`);
  demand(BigInt(users) * BigInt(precision) <= LARGEST_SUM, "malformed", `precision ${precision}`);
  if (!moments) return { way: "shares", prio3: prio3Number(precision), ...inShares(FIELD64, 1) };
  const { dimension } = moments;
  demand(dimension * Math.log2(2 * precision) <= MOST_NUMBERS, "too-many-messages", `${dimension} numbers in shares`);
  return { way: "vectors", prio3: prio3SumVec(dimension, precision), ...inShares(FIELD128, dimension) };
}

const IN_SHARES = {
  numbers: { field: "Field64", families: ["DiscreteLaplace"] },
  vectors: { field: "Field128", families: ["DiscreteLaplace", "Skellam"] },
};

// The encoded value and this device's own noise, in shares between two servers.
function residuePlan({ users, precision, share, carrier, side, frontShares }) {
  checkKeys("secure aggregation", carrier, "kind modulus slack");
  const { modulus, slack } = carrier;
  demand(sentAs(share) === "number", "unsupported", `${share.family} in residues`);
  demand(side === "unbiased" && frontShares === 0, "malformed", "a modular sum");
  demand(isWhole(slack, 0) && isWhole(modulus, users * precision + 2 * slack + 1), "malformed", `modulus ${modulus}`);
  return { way: "residues", ...inShares(new Residues(BigInt(modulus)), 1) };
}

// How many pieces hide a residue: M = max(3, ⌈(2κ + log2 m)/(log2 n - log2 e) + 2⌉), of n >= 19 honest users. In
// doubles, with the same formula as the servers, whose logarithms may end in another digit: a part in 10^15 of a bit.
export function leastPieces(modulus, honest, security) {
  demand(honest >= LEAST_MIXED, "too-few-users", `${honest} honest users, and split-and-mix needs ${LEAST_MIXED}`);
  const needed = (2 * security + Math.log2(modulus)) / (Math.log2(honest) - Math.log2(Math.E)) + 2;
  return Math.max(3, Math.ceil(needed));
}

function piecesPlan({ users, honest, precision, share, carrier, side, frontShares }) {
  checkKeys("split-and-mix", carrier, "kind modulus slack pieces security");
  const { modulus, slack, pieces, security } = carrier;
  demand(sentAs(share) === "number", "unsupported", `${share.family} in pieces`);
  demand(side === "unbiased", "malformed", `side ${side} of a modular sum`);
  demand(isWhole(slack, 0) && isWhole(security, 1, 4096) && isWhole(pieces, 1), "malformed", "split-and-mix");
  demand(isWhole(modulus, users * precision + 2 * slack + 1), "malformed", `modulus ${modulus}`);
  const least = leastPieces(modulus, honest, security);
  demand(pieces >= least, "too-few-pieces", `${pieces} pieces, and ${least} are needed`);
  demand(pieces <= MOST_SLOTS, "too-many-messages", `${pieces} pieces`);
  return { way: "pieces", slots: pieces, length: 8, ...uncapped, front: frontShares * pieces };
}

// Where no message carries a value, values are counted.
function messagesPlan(plan) {
  checkKeys("shuffled messages", plan.carrier, "kind value_messages");
  return plan.carrier.value_messages === 0 ? countsPlan(plan) : bitsPlan(plan);
}

// A value in unary among noise bits.
function bitsPlan({ precision, share, carrier, side, frontShares }) {
  demand(sentAs(share) === "bits", "malformed", `${share.family} as bits`);
  demand(carrier.value_messages === precision, "malformed", `${carrier.value_messages} value messages`);
  demand(side === "unbiased", "malformed", `side ${side} of a sum of bits`);
  const noise = mostBits(share);
  demand(precision + noise <= MOST_SLOTS, "too-many-messages", `${precision + noise} messages`);
  return { way: "bits", slots: precision + noise, length: 1, ...uncapped, front: frontShares * noise };
}

// Every one is a message, and so is every unit of noise.
function countsPlan(plan) {
  const { values, precision, share, side } = plan;
  demand(sentAs(share) === "counts", "malformed", `${share.family} as counted messages`);
  demand(side === "over" || side === "under", "malformed", `side ${side} of counted messages`);
  // The limit on the noise is kept by what a device knows of its own value.
  demand(precision === 1 && values.binary, "unsupported", "counts of more than zero and one");
  return { way: "counts", length: 1, ...capped(plan, 1, 1) };
}

const uncapped = { cap: null, excess: 0, frontExcess: 0 };
const inShares = (residues, outputs) =>
  ({ residues, outputs, ...uncapped, slots: 1, length: residues.size * outputs, front: 0 });

// The least caps >= 1 with P(Z > cap) <= 0.01·δ/((1 + e^ε)·parties), where Z is the noise of so many draws together:
// for each of the users, and for the front when it adds noise of its own. What cannot fit on average is refused before
// any table is made.
function capped({ mechanism, users, share, frontShares }, draws, own) {
  const { epsilon, delta } = mechanism.guarantee;
  const allowed = (CAP_SHARE * delta) / (1 + Math.exp(epsilon)) / (users + (frontShares ? 1 : 0));
  const mean = meanOf(share) * draws;
  demand(own + Math.ceil(mean) <= MOST_SLOTS, "too-many-messages", `${own + mean} messages on average`);
  demand(mean * frontShares <= MOST_FRONT, "too-many-messages", `${mean * frontShares} messages of the front`);
  const { cap, excess } = userCap(share, draws, own, allowed);
  const form = { cap, excess, slots: own + cap };
  return { ...form, ...(frontShares ? frontCap(share, draws * frontShares, allowed) : { front: 0, frontExcess: 0 }) };
}

// Exactly: the noise is drawn from the same law, and must fit.
function userCap(share, draws, own, allowed) {
  let beyond = ONE;
  let cap = -1;
  for (const mass of law(share, draws)) {
    beyond -= mass;
    cap += 1;
    demand(own + cap <= MOST_SLOTS, "too-many-messages", `more than ${MOST_SLOTS} messages`);
    const excess = fixedToDouble(beyond);
    if (cap >= 1 && excess <= allowed) return { cap, excess };
  }
  throw new Error("a law has no end");
}

// In doubles, from the far end: the front draws it, and here it only adds to δ.
function frontCap(share, draws, allowed) {
  const { first, table, cut } = counted(share, draws);
  let at = table.length;
  let frontExcess = cut;
  while (at > 1 && frontExcess + table[at - 1] <= allowed) frontExcess += table[(at -= 1)];
  return { front: Math.max(1, first + at - 1), frontExcess };
}

const isText = (value) => typeof value === "string";

const UNIVERSES = {
  items({ names, ...rest }) {
    checkKeys("items", rest, "kind");
    demand(Array.isArray(names) && names.every(isText) && new Set(names).size === names.length, "malformed", "items");
    return names.length;
  },
  buckets({ bits, salt, candidates, ...rest }) {
    checkKeys("buckets", rest, "kind");
    const texts = isText(salt) && !salt.includes("\0") && Array.isArray(candidates) && candidates.every(isText);
    demand(isWhole(bits, 1, 26) && texts, "malformed", "buckets");
    return 2 ** bits;
  },
  numbers({ size, ...rest }) {
    checkKeys("numbers", rest, "kind");
    return size;
  },
};

const BALLOTS = {
  "labelled-messages": { model: "shuffle", plan: labelsPlan },
  "shared-counts": { model: "two-servers", plan: countsInShares },
};

function readHistogram(mechanism) {
  checkKeys("a histogram", mechanism, "version kind model constants ballot guarantee universe");
  const { version, model, ballot, guarantee, universe } = mechanism;
  demand(version === 1 && Object.hasOwn(BALLOTS, ballot?.kind), "unsupported", `a histogram by ${ballot?.kind}`);
  demand(model === BALLOTS[ballot.kind].model, "unsupported", `a histogram in the ${model} model`);
  const { size } = ballot;
  demand(Object.hasOwn(UNIVERSES, universe?.kind), "unsupported", `a universe of ${universe?.kind}`);
  demand(isWhole(size, 2, 2 ** 26) && UNIVERSES[universe.kind](universe) === size, "malformed", `${size} items`);
  checkGuarantee(guarantee);
  return Object.freeze(BALLOTS[ballot.kind].plan(mechanism));
}

const KINDS = { HistogramMechanism: readHistogram, SeveralSums: readSeveral };

// One at the user's item and zero elsewhere, in shares between two servers, each of which adds noise to every count.
function countsInShares(mechanism) {
  const { ballot, universe } = mechanism;
  checkKeys("a ballot", ballot, "kind size users noise field");
  const { size, users, noise: share, field } = ballot;
  demand(field === "Field128", "unsupported", `a histogram in the field ${field}`);
  demand(size <= MOST_NUMBERS, "too-many-messages", `${size} numbers in shares`);
  checkUsers(users, 0, 0, "two-servers");
  checkNoise(share);
  demand(share.family === "DiscreteLaplace", "unsupported", `${share.family} from the servers`);
  const plan = { mechanism, trust: "two-servers", way: "sharedCounts", users, honest: 0, share, size, universe };
  return { ...plan, frontShares: 0, prio3: prio3Histogram(size), ...inShares(FIELD128, size) };
}

function labelsPlan(mechanism) {
  const { ballot, universe } = mechanism;
  checkKeys("a ballot", ballot, "kind size users counted_on share side front_shares?");
  const { size, users, counted_on: honest, share, side, front_shares: frontShares = 0 } = ballot;
  checkUsers(users, honest, frontShares, "shuffler");
  demand(side === "over" || side === "under", "malformed", `side ${side}`);
  checkNoise(share);
  demand(sentAs(share) === "counts", "malformed", `${share.family} as labelled messages`);
  const length = Math.max(1, Math.ceil((size - 1).toString(2).length / 8));
  const form = { way: "labels", trust: "shuffler", size, length, side };
  const plan = { mechanism, ...form, users, honest, share, universe, frontShares };
  return { ...plan, ...capped(plan, size, side === "under" ? size - 1 : 1) };
}
