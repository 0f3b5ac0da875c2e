// Additive shares between two servers: each alone is uniform and tells nothing, both together add up to the numbers.
// One share is expanded from a seed, the other is what is missing.

import { SEED, stream, tagOf } from "./xof.js";

const ALGORITHM = 0xffffcc01; // among the numbers that the draft leaves to private use: shares without a proof
const USAGE = 1;
export const WORD = 8; // bytes of a number

// Fields so large that no honest sum wraps around, by name.
export const FIELDS = { Field64: 2n ** 32n * (2n ** 32n - 1n) + 1n };

function* words(blocks) {
  for (const block of blocks) {
    const view = new DataView(block.buffer);
    for (let at = 0; at < block.length; at += WORD) yield view.getBigUint64(at, true);
  }
}

// The share that a seed stands for, within a context: so many uniform numbers below the modulus. Words that would make
// some remainders likelier than others are passed over.
export function expand(modulus, seed, context, length) {
  if (seed.length !== SEED) throw new RangeError(`a seed of ${seed.length} bytes`);
  const whole = (2n ** 64n / modulus) * modulus;
  const found = [];
  if (length === 0) return found;
  for (const drawn of words(stream(seed, tagOf(ALGORITHM, USAGE, context)))) {
    if (drawn < whole && found.push(drawn % modulus) === length) return found;
  }
}

// Each number in eight bytes, the least first.
export function encodeNumbers(numbers) {
  const view = new DataView(new ArrayBuffer(WORD * numbers.length));
  numbers.forEach((value, at) => view.setBigUint64(WORD * at, value, true));
  return new Uint8Array(view.buffer);
}

// The other share of these numbers, which may be negative.
export function split(modulus, numbers, seed, context) {
  const mask = expand(modulus, seed, context, numbers.length);
  const rest = (value, at) => (((value - mask[at]) % modulus) + modulus) % modulus;
  return encodeNumbers(numbers.map(rest));
}
