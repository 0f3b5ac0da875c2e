// The servers' side of Prio3, as plainly as the draft says it and one report at a time: for its test vectors.

import { bestChunkLength } from "./circuits.js";
import { concat, fromHex, hex } from "./bytes.js";
import { power } from "./numbers.js";
import { prio3Count, prio3Histogram, prio3Ranges, prio3Sum, prio3SumVec } from "./croupier.js";
import { stream } from "./xof.js";
import { FIELD128 } from "./fields.js";

const MAKE = {
  Prio3Count: ({ shares }) => prio3Count({ shares }),
  Prio3Sum: ({ max_measurement: most, shares }) => prio3Sum(most, { shares }),
  Prio3SumVec: ({ length, max_measurement: most, ...form }) => prio3SumVec(length, most, formOf(form)),
  Prio3SumVecWithMultiproof: ({ length, max_measurement: most, ...form }) =>
    prio3SumVec(length, most, { ...formOf(form), proofs: 3 }),
  Prio3Histogram: ({ length, ...form }) => prio3Histogram(length, formOf(form)),
  Prio3Ranges: ({ ranges }) => prio3Ranges(ranges),
};
const formOf = ({ chunk_length: chunkLength, shares }) => ({ chunkLength, shares });

const total = (numbers) => numbers.reduce((sum, one) => sum + one, 0n);

// What must be zero, by type: from the numbers and from what the gadget returned at each call.
const OUTPUTS = {
  Prio3Count: ([x], [product]) => [product - x],
  Prio3Sum: (_, products) => products,
  Prio3SumVec: (_, products) => [total(products)],
  Prio3SumVecWithMultiproof: (_, products) => [total(products)],
  Prio3Ranges: (_, products) => [total(products)],
  Prio3Histogram: (numbers, products, one) => [total(products), total(numbers) - one],
};

// The numbers that are added up over reports.
function truncated({ max_measurement: most, ranges }, numbers) {
  if (!most && !ranges) return numbers;
  const bitsOf = (one) => one.toString(2).length;
  const found = [];
  for (let at = 0; at < numbers.length; ) {
    const own = ranges ? ranges[found.length] : most;
    const weight = (bit) => (bit < bitsOf(own) - 1 ? 2 ** bit : own - 2 ** bit + 1);
    found.push(total(numbers.slice(at, (at += bitsOf(own))).map((share, bit) => share * BigInt(weight(bit)))));
  }
  return found;
}

// The value at a point of the polynomial with these values at the roots of unity of their number, by Lagrange.
function valueAt(field, values, point) {
  const [roots, count] = [field.roots(values.length), BigInt(values.length)];
  const terms = values.map((value, at) => value * roots[at] * field.inverse(field.of(point - roots[at])));
  return field.of((power(point, count, field.modulus) - 1n) * field.inverse(count) * field.of(total(terms)));
}

// The last of 2n values of a polynomial of degree 2n - 2: it has no coefficient of degree 2n - 1.
function completed(field, values) {
  const roots = field.roots(values.length + 1);
  const sum = total(values.map((value, at) => value * roots[at]));
  return [...values, field.of(-roots[1] * sum)];
}

// One server's share of what decides about one proof.
function query(kind, { circuit, shares }, numbers, proof, randomness, joint) {
  const { field, arity, calls, points, inputs } = circuit;
  const one = field.inverse(BigInt(shares));
  const values = completed(field, proof.slice(arity));
  const products = Array.from({ length: calls }, (_, call) => values[2 * call + 2]);
  const outputs = OUTPUTS[kind](numbers, products, one);
  const reduced = outputs.length > 1 ? total(outputs.map((output, at) => output * randomness[at])) : outputs[0];
  const point = randomness.at(-1);
  const called = [proof, ...inputs(numbers, joint, one)];
  const wires = Array.from({ length: arity }, (_, wire) => {
    const polynomial = Array.from({ length: points }, (_, at) => called[at]?.[wire] ?? 0n);
    return valueAt(field, polynomial, point);
  });
  return [field.of(reduced), ...wires, valueAt(field, values, point)];
}

export function words({ size }, bytes) {
  const digits = (at) => hex(bytes.slice(at, at + size).reverse());
  return Array.from({ length: bytes.length / size }, (_, at) => BigInt(`0x${digits(at * size)}`));
}

const piece = (vector, index, length) => vector.slice(index * length, (index + 1) * length);

// What one server finds about its share: {verifier, part, seed, numbers}.
function verified(kind, prio3, vector, report, server) {
  const { circuit, proofs } = prio3;
  const { field, length, proofLength, jointLength } = circuit;
  const [context, nonce, share] = [vector.ctx, report.nonce, report.input_shares[server]].map(fromHex);
  const end = (length + proofLength * proofs) * field.size;
  const all = server ? null : words(field, share.slice(0, end));
  const open = server ? prio3.helperShare(context, server, share.slice(0, 32))
    : { numbers: all.slice(0, length), proofs: all.slice(length) };
  let [part, seed, joint] = [new Uint8Array(0), new Uint8Array(0), []];
  if (prio3.isJoint) {
    part = prio3.jointPart(context, server, share.slice(-32), nonce, open.numbers);
    const parts = Array.from({ length: prio3.shares }, (_, at) => piece(fromHex(report.public_share), at, 32));
    seed = prio3.jointSeed(context, parts.with(server, part));
    joint = prio3.jointNumbers(context, seed);
  }
  const outputs = OUTPUTS[kind](open.numbers, Array(circuit.calls).fill(0n), 0n).length;
  const each = 1 + (outputs > 1 ? outputs : 0);
  const binder = concat(Uint8Array.of(proofs), nonce);
  const randomness = prio3.expand("queryRandomness", context, fromHex(vector.verify_key), binder, each * proofs);
  const verifier = Array.from({ length: proofs }, (_, at) =>
    query(kind, prio3, open.numbers, piece(open.proofs, at, proofLength), piece(randomness, at, each),
      piece(joint, at, jointLength))).flat();
  const output = truncated(vector, open.numbers).map((number) => field.of(number));
  return { verifier, part, seed, output, shown: hex(concat(field.encode(verifier), part)) };
}

const columns = (field, rows) => rows[0].map((_, at) => field.of(total(rows.map((row) => row[at]))));

// The message of one report, or null if it is refused.
function messageOf(prio3, context, found) {
  const { field, arity, gadget } = prio3.circuit;
  const sums = columns(field, found.map(({ verifier }) => verifier));
  const good = Array.from({ length: prio3.proofs }, (_, at) => piece(sums, at, arity + 2)).every(
    ([output, ...rest]) => output === 0n && field.of(gadget(rest.slice(0, -1)) - rest.at(-1)) === 0n);
  if (!good) return null;
  return prio3.isJoint ? hex(prio3.jointSeed(fromHex(context), found.map(({ part }) => part))) : "";
}

// All stages of a vector, from what it gives and not from what it expects.
export function prio3Vector({ kind, servers, vector }) {
  const prio3 = MAKE[kind](vector);
  const { field } = prio3.circuit;
  const totals = [];
  const reports = vector.reports.map((report) => {
    const given = [report.nonce, vector.ctx, report.rand].map((one) => one && fromHex(one));
    const made = report.measurement === null ? null : prio3.shard(report.measurement, ...given).map(hex);
    const found = servers.map((server) => verified(kind, prio3, vector, report, server));
    found.forEach(({ output }, at) => totals[at] = totals[at] ? columns(field, [totals[at], output]) : output);
    return {
      made, shown: found.map(({ shown }) => shown), message: messageOf(prio3, vector.ctx, found),
      seeds: found.map(({ seed }) => hex(seed)), outputs: found.map(({ output }) => hex(field.encode(output))),
    };
  });
  const result = columns(field, totals).map(Number);
  return { reports, totals: totals.map((one) => hex(field.encode(one))), result };
}

// What the analyzer, which leads, and the front make of their shares of one report, as docs/wire.md carries them.
export function bothServers({ way, precision, prio3 }, { report, info, front, analyzer, key }) {
  const type = { sharedCounts: "Histogram", vectors: "SumVec", several: "SumVec" }[way] ?? (precision === 1 ? "Count" : "Sum");
  const { leader, helper } = prio3.sizes;
  const cut = { leader: analyzer.slice(0, leader), helper: front.slice(0, helper) };
  // Each server was sent the other's part, and finds its own.
  const publicShare = concat(front.slice(helper), analyzer.slice(leader));
  const most = type.startsWith("Sum") ? precision : undefined;
  const vector = { ctx: hex(info), verify_key: hex(key), max_measurement: most };
  const shares = { nonce: hex(report), input_shares: [hex(cut.leader), hex(cut.helper)] };
  const found = [0, 1].map((server) => {
    const own = new Uint8Array(publicShare.length / 2);
    const known = server ? concat(publicShare.slice(0, 32), own) : concat(own, publicShare.slice(32));
    return verified(`Prio3${type}`, prio3, vector, { ...shares, public_share: hex(known) }, server);
  });
  const message = messageOf(prio3, vector.ctx, found);
  const { field } = prio3.circuit;
  const agreed = found.every(({ seed }) => hex(seed) === message);
  return {
    type, leader: hex(cut.leader), helper: hex(cut.helper), publicShare: hex(publicShare),
    servers: found.map(({ shown, output }) => ({ shown, output: hex(field.encode(output)) })),
    message: agreed ? message : null, result: columns(field, found.map(({ output }) => output)).map(Number),
  };
}

export function xofVector({ seed, dst, binder, length }) {
  const given = [seed, dst, binder].map(fromHex);
  return [hex(stream(...given)(32)), hex(FIELD128.encode(FIELD128.uniform(stream(...given), length)))];
}

const TYPES = {
  count: () => prio3Count(), sum: (most) => prio3Sum(most), histogram: (...form) => prio3Histogram(...form),
  sumVec: (...form) => prio3SumVec(...form),
};

// [type, parameters, measurement, bytes of nonce, context and rand]: the bytes of each share, or the error.
export function sharded(cases) {
  return cases.map(([type, parameters, measurement, nonce = 16, context = 0, rand]) => {
    try {
      const prio3 = TYPES[type](...parameters);
      const bytes = [nonce, context, rand ?? prio3.randSize].map((size) => new Uint8Array(size));
      const shares = prio3.shard(measurement, ...bytes);
      const { publicShare, leader, helper } = prio3.sizes;
      return shares.length === 3 && shares.every((one, at) => one.length === [publicShare, leader, helper][at])
        ? shares.map((one) => one.length) : "other sizes than were said";
    } catch (error) {
      return `${error.name}: ${error.message}`;
    }
  });
}

export const chunkLengths = (lengths) => lengths.map(bestChunkLength);

// Two reports of one value, of each type: how many of their shares agree though each has chance of its own.
export const repeated = (cases) =>
  cases.map(([type, parameters, measurement]) => {
    const prio3 = TYPES[type](...parameters);
    const [one, other] = [1, 2].map(() => prio3.shard(measurement, new Uint8Array(16), new Uint8Array(0)).map(hex));
    return one.filter((share, at) => share !== "" && share === other[at]).length;
  });

// Milliseconds for one report: of the first in this page, and the median of many.
export function durations({ cases, times }) {
  return cases.map(([type, parameters, measurement]) => {
    const all = Array.from({ length: times }, () => {
      const began = performance.now();
      TYPES[type](...parameters).shard(measurement, new Uint8Array(16), new Uint8Array(150));
      return performance.now() - began;
    });
    return { first: all[0], median: all.sort((a, b) => a - b)[times >> 1] };
  });
}
