// Additive shares between two servers: each alone is uniform and tells nothing, both together add up to the numbers.
// One share is expanded from a seed, the other is what is missing.

import { SEED, stream, tagOf } from "./xof.js";

const ALGORITHM = 0xffffcc01; // among the numbers that the draft leaves to private use: shares without a proof
const USAGE = 1;

// The share that a seed stands for, within a context: so many uniform residues.
export function expand(residues, seed, context, length) {
  if (seed.length !== SEED) throw new RangeError(`a seed of ${seed.length} bytes`);
  return residues.uniform(stream(seed, tagOf(ALGORITHM, USAGE, context)), length);
}

// The other share of these numbers, which may be negative.
export const split = (residues, numbers, seed, context) =>
  residues.encode(residues.less(numbers, expand(residues, seed, context, numbers.length)));
