// The report as bytes, from messages to the body of an upload (docs/wire.md).

import { concat, double, fromBase64, number, random, sha256, utf8 } from "./bytes.js";
import { randomize, secretOf } from "./randomizing.js";
import { SUITE, sealer } from "./sealing.js";
import { split } from "./shares.js";
import { SEED } from "./xof.js";

const VERSION = 2;
const ZERO = new Uint8Array(1);

// `pin`: the hash of the configuration that the batch was first opened under.
export const batchHash = ({ number: batch, pin, text }) =>
  sha256(concat(utf8("croupier/2 batch"), ZERO, number(batch, 4), fromBase64(pin), utf8(text)));

export const messageInfo = (experiment, pin, hash) =>
  concat(utf8("croupier/2 message"), ZERO, utf8(experiment), ZERO, fromBase64(pin), hash);

export const reportInfo = (experiment, configurationHash) =>
  concat(utf8("croupier/2 report"), ZERO, utf8(experiment), ZERO, configurationHash);

// Messages first, dummies after them: the order says nothing, since each is sealed and the front cannot open it.
export function fillSlots(messages, { slots, length }) {
  if (messages.length > slots) throw new RangeError(`${messages.length} messages for ${slots} slots`);
  const dummies = Array.from({ length: slots - messages.length }, () => new Uint8Array(1 + length));
  return [...messages.map((message) => concat(Uint8Array.of(1), message)), ...dummies];
}

export function packReport(reportId, token, offerNumber, batches) {
  const head = [reportId, token, number(offerNumber, 4), number(batches.length, 1)];
  const body = batches.flatMap(({ number: batch, sealed }) => [
    number(batch, 4), number(sealed.length, 2), number(sealed[0].length, 2), ...sealed,
  ]);
  return concat(...head, ...body);
}

export async function packUpload(frontKey, configurationHash, sealedReport) {
  const keyId = (await sha256(frontKey)).slice(0, 8);
  return concat(Uint8Array.of(VERSION, SUITE.number), keyId, configurationHash, sealedReport);
}

const NO_ARM = 2 ** 32 - 1;

// What each part of a report in shares is for. Where the servers add the noise there is one part, and it is for the
// arm, whatever batch it falls into, in blocks for the arm in its epoch, and for its encoding. Where the devices do
// there is one for each batch, and for that batch alone.
export function scopesOf({ arm, batches, epoch }) {
  const [{ plan }] = batches;
  if (plan.trust !== "two-servers") return Promise.all(batches.map(batchHash));
  const own = number(arm ?? NO_ARM, 4);
  return [concat(own, epoch === null ? number(0, 0) : number(epoch, 4), encodingOf(plan))];
}

// How the numbers of a report stand for a value: their kind, how many they are, the largest, and their scales.
const ENCODINGS = {
  shares: ({ values: { low, high } }) => [1, [low, high]],
  vectors: ({ values: { features, places, weight, centred, control } }) =>
    [2, [features, places, weight, Number(centred), control]],
  several: ({ parts }) => [3, parts.flatMap(({ values: { low, high } }) => [low, high])],
  sharedCounts: () => [4, []],
};

export function encodingOf(plan) {
  const [kind, scales] = ENCODINGS[plan.way](plan);
  const { outputs, precision = 1 } = plan;
  return concat(number(kind, 1), number(outputs, 4), number(precision, 8), ...scales.map(double));
}

// What both shares of a part are bound to: the seal of one, the expansion of the other's seed.
export const shareInfo = (experiment, configurationHash, scope, part, report) =>
  concat(utf8("croupier/2 share"), ZERO, utf8(experiment), ZERO, configurationHash, scope, Uint8Array.of(part), report);

export const packShared = (report, token, offerNumber, front, sealed) =>
  concat(report, token, number(offerNumber, 4), front, ...sealed);

// Messages for each batch, all alike. They are sealed to the key of what their batch is pinned to, so that nothing
// tells those of one revision from another's.
async function shuffled({ configuration, pinned, offer, token, report }, value) {
  const batches = [];
  for (const batch of offer.batches) {
    const info = messageInfo(configuration.experiment, batch.pin, await batchHash(batch));
    const seal = await sealer(fromBase64(pinned.get(batch.pin).seal), info);
    const slots = fillSlots(await randomize(batch.plan, value), batch.plan);
    batches.push({ number: batch.number, sealed: await Promise.all(slots.map((slot) => seal(slot))) });
  }
  return packReport(report, token, offer.number, batches);
}

// Without proofs: a seed of all the front's shares, and of each part what is missing.
export function bareShares(parts, seed = random(SEED)) {
  return { front: seed, analyzer: parts.map(({ plan, secret, info }) => split(plan.residues, secret, seed, info)) };
}

// With proofs there is one part. The front is Prio3's helper, the analyzer its leader, the context is what both shares
// are bound to, and the nonce the report's name. Where a type has joint randomness each server also gets the other's
// part of it, which is half of the public share.
export function provedShares([{ plan, secret, info }], report, rand) {
  const { prio3 } = plan;
  const [both, leader, helper] = prio3.shard(prio3.circuit.measurement(secret), report, info, rand);
  return { front: concat(helper, both.slice(0, SEED)), analyzer: [concat(leader, both.slice(SEED))] };
}

// Two shares of each part: one for the front, the other sealed to the analyzer.
async function shared({ configuration, offer, token, report }, value) {
  const { experiment, keys } = configuration;
  const parts = [];
  for (const [part, scope] of (await scopesOf(offer)).entries()) {
    const { plan } = offer.batches[part];
    const info = shareInfo(experiment, fromBase64(offer.configuration), scope, part, report);
    parts.push({ plan, info, secret: await secretOf(plan, value) });
  }
  const { front, analyzer } = isProved(configuration) ? provedShares(parts, report) : bareShares(parts);
  const sealed = parts.map(async ({ info }, part) =>
    (await sealer(fromBase64(keys.analyzer.seal), info))(analyzer[part]));
  return packShared(report, token, offer.number, front, await Promise.all(sealed));
}

const IN_SHARES = ["two-servers", "devices"];
const isProved = ({ validity }) => validity.kind === "prio3";
const [HEADER, HEAD] = [42, 16 + 56 + 4]; // bytes of an upload before the sealed report, of a report before its parts

const sealedLength = (bytes) => bytes + SUITE.overhead;

// The bytes of a report after its head, whatever is in it.
function bodyLength(batches, configuration) {
  const plans = batches.map(({ plan }) => plan);
  const total = (lengths) => lengths.reduce((sum, length) => sum + length, 0);
  if (isProved(configuration)) {
    const { publicShare, leader, helper } = plans[0].prio3.sizes;
    return publicShare + helper + sealedLength(leader);
  }
  if (configuration.trust === "two-servers") return SEED + sealedLength(plans[0].length);
  if (configuration.trust === "devices") return SEED + total(plans.map(({ length }) => sealedLength(length)));
  return 1 + total(plans.map(({ slots, length }) => 8 + slots * sealedLength(1 + length)));
}

// The length of every upload on an offer, whatever is in it.
export const uploadLength = ({ batches }, configuration) =>
  HEADER + sealedLength(HEAD + bodyLength(batches, configuration));

// Randomizes and seals a turn's report: the bytes of its upload. No two calls give the same bytes, and only one is
// sent.
export async function sealReport(turn, outcome) {
  const value = turn.reported(outcome);
  const { experiment, keys, trust } = turn.configuration;
  const hash = fromBase64(turn.offer.configuration);
  const frontKey = fromBase64(keys.front.seal);
  const seal = await sealer(frontKey, reportInfo(experiment, hash));
  const report = await (IN_SHARES.includes(trust) ? shared : shuffled)(turn, value);
  return packUpload(frontKey, hash, await seal(report));
}
