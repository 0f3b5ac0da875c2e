// From a value to the messages that hide it, drawn anew at every call (docs/format.md).

import { concat, number, sha256, utf8 } from "./bytes.js";
import { below, happens, sample, sampleBits, spread } from "./noise.js";
import { fraction } from "./numbers.js";

// A value of a range on the scale 0..1, or a refusal.
export function unitOf({ low, high, binary, clip }, value) {
  const given = typeof value === "boolean" ? Number(value) : value;
  if (typeof given !== "number" || Number.isNaN(given)) throw new RangeError(`${value} is no number`);
  const inside = clip ? Math.min(high, Math.max(low, given)) : given;
  if (!(inside >= low && inside <= high)) throw new RangeError(`${value} is not between ${low} and ${high}`);
  if (binary && inside !== low && inside !== high) throw new RangeError(`${value} is neither ${low} nor ${high}`);
  return Math.min(1, Math.max(0, (inside - low) / (high - low)));
}

// The value on the scale 0..g: {whole, rest}, to be rounded up with probability `rest`. Doubles, as every other client
// has them: what they round is some 2^-52 of the value itself, and whatever comes out lies in 0..g.
export function encoded({ values, precision }, value) {
  const scaled = unitOf(values, value) * precision;
  const whole = Math.floor(scaled);
  return { whole, rest: scaled - whole };
}

const raised = (rest) => (rest > 0 && happens(fraction(rest)) ? 1 : 0);

// The whole number that is sent of it.
export function rounded(plan, value) {
  const { whole, rest } = encoded(plan, value);
  const up = raised(rest);
  return plan.side === "under" ? plan.precision - whole - up : whole + up;
}

// The whole numbers that are sent of a vector.
export const roundedVector = ({ moments, precision }, vector) =>
  moments.unit(vector).map((number) => {
    const [scaled, whole] = [number * precision, Math.floor(number * precision)];
    return whole + raised(scaled - whole);
  });

// Noise that is drawn again, whatever the value, when it would not fit into the slots.
function limited(share, parties, cap) {
  for (;;) {
    const drawn = sample(share, parties);
    if (drawn <= cap) return drawn;
  }
}

const bytesOf = (value, times) => Array.from({ length: times }, () => number(value, 1));

// An item that is not in the list has no label: its label would name its holder.
const ITEMS = {
  items({ names }, item) {
    if (!names.includes(item)) throw new RangeError(`${item} is not one of the ${names.length} items`);
  },
  buckets(_, item) {
    if (typeof item !== "string") throw new RangeError(`${item} is no text`);
  },
  numbers({ size }, item) {
    if (!Number.isInteger(item) || item < 0 || item >= size) throw new RangeError(`${item} is not below ${size}`);
  },
};

// Labels count from 0.
const LABELS = {
  items: ({ names }, item) => names.indexOf(item),
  // The leading bits of SHA-256(salt, zero byte, item).
  async buckets({ bits, salt }, item) {
    const hash = await sha256(concat(utf8(salt), new Uint8Array(1), utf8(item)));
    return new DataView(hash.buffer).getUint32(0) >>> (32 - bits);
  },
  numbers: (_, item) => item,
};

// Refuses what cannot be reported.
export function checkValue({ universe, moments, ...plan }, value) {
  if (plan.parts) numbersOf(plan, value, checkValue);
  else if (universe) ITEMS[universe.kind](universe, value);
  else if (moments) moments.unit(value);
  else encoded(plan, value);
}

// What is made of each number of a report, in their order; a missing, unknown or bad one is refused by its name.
function numbersOf({ names, parts }, value, make) {
  const all = names.join(", ");
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject) throw new RangeError(`${value} is no number for each of ${all}`);
  const unknown = Object.keys(value).find((name) => !names.includes(name));
  if (unknown !== undefined) throw new RangeError(`${unknown} is none of ${all}`);
  return names.map((name, at) => {
    if (!Object.hasOwn(value, name)) throw new RangeError(`${name} is missing: a report has ${all}`);
    try {
      return make(parts[at], value[name]);
    } catch (error) {
      throw new RangeError(`${name}: ${error.message}`);
    }
  });
}

function labelOf(universe, item) {
  ITEMS[universe.kind](universe, item);
  return LABELS[universe.kind](universe, item);
}

const SECRETS = {
  shares: (plan, value) => [BigInt(rounded(plan, value))],
  vectors: (plan, vector) => roundedVector(plan, vector).map(BigInt),
  several: (plan, value) => numbersOf(plan, value, rounded).map(BigInt),
  residues: (plan, value) => [BigInt(rounded(plan, value)) + sample(plan.share)],
  async sharedCounts({ universe, size }, item) {
    const own = await labelOf(universe, item);
    return Array.from({ length: size }, (_, label) => (label === own ? 1n : 0n));
  },
};

// The numbers of one report in shares.
export const secretOf = async (plan, value) => SECRETS[plan.way](plan, value);

// What chance decides in a report.
const DRAWS = {
  pieces(plan, value) {
    const modulus = BigInt(plan.carrier.modulus);
    const pieces = Array.from({ length: plan.carrier.pieces - 1 }, () => below(modulus));
    return { encoded: rounded(plan, value), noise: sample(plan.share), pieces };
  },
  bits(plan, value) {
    const [zeros, ones] = sampleBits(plan.share);
    return { encoded: rounded(plan, value), zeros, ones };
  },
  counts: (plan, value) => ({ encoded: rounded(plan, value), ones: Number(limited(plan.share, 1, plan.cap)) }),
  async labels({ universe, size, share, cap }, item) {
    const label = await labelOf(universe, item);
    return { label, noise: spread(share, size, limited(share, size, cap)) };
  },
};

// The messages that follow from it.
const MESSAGES = {
  pieces({ carrier }, { encoded: own, noise, pieces }) {
    const modulus = BigInt(carrier.modulus);
    const last = pieces.reduce((rest, piece) => rest - BigInt(piece), BigInt(own) + BigInt(noise)) % modulus;
    return [...pieces, (last + modulus) % modulus].map((piece) => number(piece, 8));
  },
  bits: ({ precision }, { encoded: own, zeros, ones }) => [
    ...bytesOf(0, precision - own + zeros), ...bytesOf(1, own + ones),
  ],
  counts: (plan, { encoded: own, ones }) => bytesOf(1, own + ones),
  labels({ size, side, length }, { label, noise }) {
    const own = side === "over" ? [label] : [...Array(size).keys()].filter((other) => other !== label);
    return [...own, ...noise].sort((a, b) => a - b).map((one) => number(one, length));
  },
};

export const messagesOf = (plan, drawn) => MESSAGES[plan.way](plan, drawn);

// The messages of one report.
export const randomize = async (plan, value) => messagesOf(plan, await DRAWS[plan.way](plan, value));
