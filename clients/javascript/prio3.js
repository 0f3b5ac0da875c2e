// Prio3 (draft-irtf-cfrg-vdaf): a measurement in shares, with a proof in shares that it is in range.
//
//   const [publicShare, leader, helper] = prio3Sum(127).shard(42, nonce, context);
//
// Servers learn from it only whether the report is valid. That holds for valid measurements: nothing hides an invalid
// one, so `shard` refuses it. The proofs of counts and sums do not depend on the nonce, and no type depends on its own
// parameters: whatever a report is to be bound to belongs into the context.

import { concat, random } from "./bytes.js";
import { count, histogram, ranges, sum, sumVec, wholeFrom } from "./circuits.js";
import { FIELD128, FIELD64, between } from "./fields.js";
import { notAllowed } from "./problems.js";
import { SEED, stream, tagOf } from "./xof.js";

const NONCE = 16; // bytes
const LONGEST_CONTEXT = 2 ** 16 - 1 - 8; // bytes
const MULTIPROOF = 0xffffffff; // the draft's own number for several proofs over the small field: for experiments

const USAGES = {
  measurementShare: 1, proofShare: 2, jointRandomness: 3, proveRandomness: 4, queryRandomness: 5, jointSeed: 6,
  jointPart: 7,
};

// The proof that these numbers are valid, with random starts of the wires. Each wire becomes a polynomial: its start at
// the first root of unity, what entered it at each call at the next ones, then zeros. The proof is the starts, and the
// gadget of these polynomials at twice as many roots.
function prove({ field, arity, points, inputs, gadget }, numbers, starts, joint) {
  const called = [starts, ...inputs(numbers, joint)];
  const wires = Array.from({ length: arity }, (_, wire) =>
    Array.from({ length: points }, (_, at) => called[at]?.[wire] ?? 0n));
  const further = wires.map(between(field, points));
  const at = (values, place) => field.of(gadget(values.map((wire) => wire[place])));
  const values = Array.from({ length: points }, (_, place) => [at(wires, place), at(further, place)]).flat();
  return [...starts, ...values.slice(0, -1)];
}

function checkBytes(name, value, right, wanted) {
  const given = value instanceof Uint8Array ? `${value.length} bytes` : String(value);
  const good = value instanceof Uint8Array && right(value.length);
  if (!good) throw notAllowed(name, given, wanted);
}

const piece = (vector, index, length) => vector.slice(index * length, (index + 1) * length);
const times = (length, make) => Array.from({ length }, (_, at) => make(at));

export class Prio3 {
  constructor(circuit, { proofs = 1, shares = 2 } = {}) {
    this.circuit = circuit;
    this.proofs = Number(wholeFrom("proofs", proofs, 1, 255));
    this.shares = Number(wholeFrom("shares", shares, 2, 255));
    this.isJoint = circuit.jointLength > 0;
    Object.freeze(this);
  }

  // Random bytes that one report takes.
  get randSize() {
    return SEED * this.shares * (this.isJoint ? 2 : 1);
  }

  // Bytes of each share.
  get sizes() {
    const { field, length, proofLength } = this.circuit;
    const blind = this.isJoint ? SEED : 0;
    const leader = (length + proofLength * this.proofs) * field.size + blind;
    return { publicShare: this.shares * blind, leader, helper: SEED + blind };
  }

  // The public share, the leader's and every helper's, of one measurement. Only a vector gives `rand`: it must never be
  // used twice.
  shard(measurement, nonce, context, rand = random(this.randSize)) {
    const { circuit, proofs } = this;
    const numbers = circuit.encode(measurement);
    checkBytes("nonce", nonce, (length) => length === NONCE, `${NONCE} bytes`);
    checkBytes("context", context, (length) => length <= LONGEST_CONTEXT, `at most ${LONGEST_CONTEXT} bytes`);
    checkBytes("rand", rand, (length) => length === this.randSize, `${this.randSize} bytes`);
    const seeds = times(rand.length / SEED, (at) => piece(rand, at, SEED));
    const [helpers, blinds] = this.#dealt(seeds);
    const masks = helpers.map((seed, at) => this.helperShare(context, at + 1, seed));
    const leader = masks.reduce((rest, mask) => circuit.field.less(rest, mask.numbers), numbers);
    const parts = blinds.map((blind, server) =>
      this.jointPart(context, server, blind, nonce, server ? masks[server - 1].numbers : leader));
    const joint = this.isJoint ? this.jointNumbers(context, this.jointSeed(context, parts)) : [];
    const binder = Uint8Array.of(proofs);
    const starts = this.expand("proveRandomness", context, seeds.at(-1), binder, circuit.arity * proofs);
    const made = times(proofs, (index) =>
      prove(circuit, numbers, piece(starts, index, circuit.arity), piece(joint, index, circuit.jointLength))).flat();
    const proof = masks.reduce((rest, mask) => circuit.field.less(rest, mask.proofs), made);
    const inputs = [circuit.field.encode([...leader, ...proof]), ...helpers];
    return [concat(...parts), ...inputs.map((share, at) => concat(share, blinds[at] ?? new Uint8Array(0)))];
  }

  // The seeds of the helpers, and the blinds of all servers where they fix randomness together.
  #dealt(seeds) {
    const helpers = this.shares - 1;
    if (!this.isJoint) return [seeds.slice(0, helpers), []];
    const pairs = times(helpers, (at) => [seeds[2 * at], seeds[2 * at + 1]]);
    return [pairs.map(([seed]) => seed), [seeds[2 * helpers], ...pairs.map(([, blind]) => blind)]];
  }

  // The share of the numbers and of the proofs that a seed stands for.
  helperShare(context, server, seed) {
    const { length, proofLength } = this.circuit;
    const binder = Uint8Array.of(this.proofs, server);
    return {
      numbers: this.expand("measurementShare", context, seed, Uint8Array.of(server), length),
      proofs: this.expand("proofShare", context, seed, binder, proofLength * this.proofs),
    };
  }

  // What one share gives to the joint randomness.
  jointPart(context, server, blind, nonce, numbers) {
    const encoded = this.circuit.field.encode(numbers);
    return this.#stream("jointPart", context, blind, concat(Uint8Array.of(server), nonce, encoded))(SEED);
  }

  // The seed of the joint randomness, from the parts of all shares.
  jointSeed(context, parts) {
    return this.#stream("jointSeed", context, new Uint8Array(SEED), concat(...parts))(SEED);
  }

  jointNumbers(context, seed) {
    const length = this.circuit.jointLength * this.proofs;
    return this.expand("jointRandomness", context, seed, Uint8Array.of(this.proofs), length);
  }

  expand(usage, context, seed, binder, length) {
    return this.circuit.field.uniform(this.#stream(usage, context, seed, binder), length);
  }

  #stream(usage, context, seed, binder) {
    return stream(seed, tagOf(this.circuit.algorithm, USAGES[usage], context), binder);
  }
}

// How many said yes: a measurement is 0 or 1.
export const prio3Count = ({ shares } = {}) => new Prio3(count(), { shares });

// A sum of whole numbers from 0 to `maxMeasurement`; the proof doubles where its bits reach a power of two.
export const prio3Sum = (maxMeasurement, { shares } = {}) => new Prio3(sum(maxMeasurement), { shares });

// A sum of whole numbers from 0 to `most`, by the shorter proof: that of a count where `most` is one.
export const prio3Number = (most) => (most === 1 ? prio3Count() : prio3Sum(most));

// A sum of vectors of `length` whole numbers from 0 to `maxMeasurement`. Without `chunkLength`, the one with the
// shortest proof is taken. Three proofs or more are over the small field, in the draft's experimental variant: fewer
// bytes.
export function prio3SumVec(length, maxMeasurement, { chunkLength, proofs = 1, shares } = {}) {
  if (proofs === 2) throw new RangeError("proofs = 2 is not allowed: two over the small field can be searched for");
  const kind = proofs === 1 ? { algorithm: 3, field: FIELD128 } : { algorithm: MULTIPROOF, field: FIELD64 };
  return new Prio3(sumVec(length, maxMeasurement, chunkLength, kind), { proofs, shares });
}

// A sum of vectors whose numbers have ranges of their own: from 0 to `most` of each. Where all are alike this is the
// draft's own type.
export const prio3Ranges = (most) =>
  new Set(most).size === 1 ? prio3SumVec(most.length, most[0]) : new Prio3(ranges(most));

// How many chose each of `length` buckets: a measurement is the number of one.
export const prio3Histogram = (length, { chunkLength, shares } = {}) =>
  new Prio3(histogram(length, chunkLength), { shares });
