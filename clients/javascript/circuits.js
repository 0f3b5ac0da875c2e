// What a valid report is, for the four types of Prio3: how a measurement is encoded, and what its proof is about.
//
// A circuit feeds numbers that are linear in the encoded measurement into several calls of one gadget, a formula of
// degree two: x² - x for a single bit, or a sum of products of pairs for many at once.

import { FIELD128, FIELD64 } from "./fields.js";
import { notAllowed } from "./problems.js";

const MOST_NUMBERS = 2 ** 20;
const RANGES = 0xffffcc02;

const isWhole = (value) => typeof value === "bigint" || Number.isSafeInteger(value);

// A whole number in this range as a BigInt; a number beyond 2^53 is not exact, and has to be given as one.
export function wholeFrom(name, value, least, most) {
  const found = isWhole(value) ? BigInt(value) : null;
  if (found !== null && found >= least && found <= most) return found;
  throw notAllowed(name, value, `an exact whole number in [${least}, ${most}]`);
}

const bitLength = (number) => number.toString(2).length;

// A number up to `most` as bits, of which the last has the weight that makes all together `most`.
function bitsOf(number, most) {
  const low = BigInt(bitLength(most) - 1);
  const last = number >> low;
  const rest = number - last * (most - (1n << low) + 1n);
  return [...Array.from({ length: Number(low) }, (_, bit) => (rest >> BigInt(bit)) & 1n), last];
}

const bitMinusSquare = ([x]) => x * x - x;
const sumOfProducts = (wires) => wires.reduce((sum, x, at) => (at % 2 ? sum + wires[at - 1] * x : sum), 0n);

// `length`: how many numbers encode a measurement; `calls` of a gadget with `arity` wires; `jointLength`: how many
// numbers it takes from the randomness that all shares fix together. `inputs` of every call come from the numbers, or
// from a share of them together with as large a part of `one`. `measurement`: the one that adds these numbers to a sum.
function circuit(form) {
  const points = 2 ** bitLength(form.calls); // of a wire: its random start, one for each call, and zeros
  const common = { jointLength: 0, measurement: ([x]) => x };
  return Object.freeze({ ...common, ...form, points, proofLength: form.arity + 2 * points - 1 });
}

// Zero or one: x · x - x is zero.
export const count = () =>
  circuit({
    algorithm: 1, field: FIELD64, length: 1, arity: 2, calls: 1, gadget: sumOfProducts,
    encode: (measurement) => [wholeFrom("measurement", measurement, 0, 1)],
    inputs: ([x]) => [[x, x]],
  });

// A whole number from 0 to `maxMeasurement`: x² - x is zero for each of its bits.
export function sum(maxMeasurement) {
  const most = wholeFrom("maxMeasurement", maxMeasurement, 1, 2n ** 62n);
  const bits = bitLength(most);
  return circuit({
    algorithm: 2, field: FIELD64, length: bits, arity: 1, calls: bits, gadget: bitMinusSquare,
    encode: (measurement) => bitsOf(wholeFrom("measurement", measurement, 0, most), most),
    inputs: (numbers) => numbers.map((x) => [x]),
  });
}

// Many bits at once: the sum of r^j · x · (x - 1) over the bits of a chunk, with one random r for each chunk.
function bits(algorithm, field, length, chunkLength, own) {
  const chunk = Number(wholeFrom("chunkLength", chunkLength ?? bestChunkLength(length), 1, length));
  const calls = Math.ceil(length / chunk);
  const inputs = (numbers, joint, one = 1n) =>
    joint.map((random, call) => {
      let power = 1n;
      return Array.from({ length: chunk }, (_, at) => {
        const x = numbers[call * chunk + at] ?? 0n;
        power = field.of(power * random);
        return [field.of(power * x), x - one];
      }).flat();
    });
  const form = { algorithm, field, length, arity: 2 * chunk, calls, jointLength: calls };
  return circuit({ ...form, gadget: sumOfProducts, inputs, ...own });
}

// The chunk length with the shortest proof that so many bits are bits; of two, the one with fewer wires. All numbers of
// calls with equal 2^k points cost the same, so only the largest of them, 2^k - 1, is tried.
export function bestChunkLength(length) {
  const cost = (chunk) => chunk + 2 ** bitLength(Math.ceil(length / chunk));
  const tried = Array.from({ length: bitLength(length) }, (_, k) => Math.ceil(length / (2 ** (k + 1) - 1)));
  return tried.reduce((best, chunk) => (cost(chunk) <= cost(best) ? chunk : best));
}

// As many whole numbers as there are ranges, each from 0 to its own.
function vector(algorithm, field, ranges, chunkLength) {
  const encode = (measurement) => {
    const { length: given } = measurement ?? {};
    if (given !== ranges.length) throw new RangeError(`measurement has ${given} numbers, and ${ranges.length} are due`);
    const own = (one, at) => bitsOf(wholeFrom(`measurement[${at}]`, one, 0, ranges[at]), ranges[at]);
    return Array.from(measurement, own).flat();
  };
  const length = ranges.reduce((sum, most) => sum + bitLength(most), 0);
  return bits(algorithm, field, length, chunkLength, { encode, measurement: (numbers) => numbers });
}

// `length` whole numbers, each from 0 to `maxMeasurement`.
export function sumVec(length, maxMeasurement, chunkLength, { algorithm, field }) {
  const outputs = Number(wholeFrom("length", length, 1, MOST_NUMBERS));
  const most = wholeFrom("maxMeasurement", maxMeasurement, 1, field.modulus / 4n);
  return vector(algorithm, field, Array(outputs).fill(most), chunkLength);
}

// Whole numbers, each from 0 to a largest of its own; the draft leaves the type's number to private use.
export function ranges(most) {
  wholeFrom("length", most.length, 1, MOST_NUMBERS);
  const own = most.map((one) => wholeFrom("most", one, 1, FIELD128.modulus / 4n));
  return vector(RANGES, FIELD128, own);
}

// One of `length` buckets: every number is zero or one, and they add up to one.
export function histogram(length, chunkLength) {
  const outputs = Number(wholeFrom("length", length, 1, MOST_NUMBERS));
  const encode = (measurement) => {
    const bucket = Number(wholeFrom("measurement", measurement, 0, outputs - 1));
    return Array.from({ length: outputs }, (_, at) => (at === bucket ? 1n : 0n));
  };
  const measurement = (numbers) => {
    const bucket = numbers.indexOf(1n);
    const whole = numbers.length === outputs && numbers.every((x, at) => x === (at === bucket ? 1n : 0n));
    if (!whole || bucket < 0) throw new RangeError(`not one at one of ${outputs} places and zero at the others`);
    return bucket;
  };
  return bits(4, FIELD128, outputs, chunkLength, { encode, measurement });
}
