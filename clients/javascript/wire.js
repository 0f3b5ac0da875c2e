// The report as bytes, from messages to the body of an upload (docs/wire.md).

import { concat, fromBase64, number, random, sha256, utf8 } from "./bytes.js";
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
// arm, whatever batch it falls into. Where the devices do there is one for each batch, and for that batch alone.
export function scopesOf({ arm, batches }) {
  if (batches[0].plan.trust === "two-servers") return [number(arm ?? NO_ARM, 4)];
  return Promise.all(batches.map(batchHash));
}

// What both shares of a part are bound to: the seal of one, the expansion of the other's seed.
export const shareInfo = (experiment, configurationHash, scope, part, report) =>
  concat(utf8("croupier/2 share"), ZERO, utf8(experiment), ZERO, configurationHash, scope, Uint8Array.of(part), report);

export const packShared = (report, token, offerNumber, seed, sealed) =>
  concat(report, token, number(offerNumber, 4), seed, ...sealed);

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

// Two shares of each part: the seed of one for the front, the other sealed to the analyzer.
async function shared({ configuration, offer, token, report }, value) {
  const { experiment, keys } = configuration;
  const seed = random(SEED);
  const sealed = [];
  for (const [part, scope] of (await scopesOf(offer)).entries()) {
    const { plan } = offer.batches[part];
    const info = shareInfo(experiment, fromBase64(offer.configuration), scope, part, report);
    const share = split(plan.modulus, await secretOf(plan, value), seed, info);
    sealed.push(await (await sealer(fromBase64(keys.analyzer.seal), info))(share));
  }
  return packShared(report, token, offer.number, seed, sealed);
}

const IN_SHARES = ["two-servers", "devices"];
const [HEADER, HEAD] = [42, 16 + 56 + 4]; // bytes of an upload before the sealed report, and of a report before its parts

// The length of every upload on an offer, whatever is in it.
export function uploadLength({ batches }) {
  const [{ plan: first }] = batches;
  const parts = first.trust === "two-servers" ? batches.slice(0, 1) : batches;
  const shares = ({ plan }) => plan.length + SUITE.overhead;
  const slots = ({ plan }) => 8 + plan.slots * (1 + plan.length + SUITE.overhead);
  const [head, length] = IN_SHARES.includes(first.trust) ? [SEED, shares] : [1, slots];
  return parts.reduce((sum, batch) => sum + length(batch), HEADER + HEAD + head + SUITE.overhead);
}

// Randomizes and seals a turn's report: the bytes of its upload. No two calls give the same bytes, and only one is
// sent.
export async function sealReport(turn, value) {
  const { experiment, keys, trust } = turn.configuration;
  const hash = fromBase64(turn.offer.configuration);
  const frontKey = fromBase64(keys.front.seal);
  const seal = await sealer(frontKey, reportInfo(experiment, hash));
  const report = await (IN_SHARES.includes(trust) ? shared : shuffled)(turn, value);
  return packUpload(frontKey, hash, await seal(report));
}
