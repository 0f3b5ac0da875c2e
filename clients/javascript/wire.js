// The report as bytes, from messages to the body of an upload (docs/wire.md).

import { base64, concat, fromBase64, number, random, sha256, utf8 } from "./bytes.js";
import { randomize } from "./randomizing.js";
import { SUITE, sealer } from "./sealing.js";

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

// Randomizes and seals: {report, body} in base64. Called once for a turn, and what it returns is kept. Messages are
// sealed to the key of what their batch is pinned to, so that nothing tells those of one revision from another's.
export async function sealReport({ configuration, pinned, hash, offer, token }, value) {
  const { experiment, keys } = configuration;
  const batches = [];
  for (const batch of offer.batches) {
    const info = messageInfo(experiment, batch.pin, await batchHash(batch));
    const seal = await sealer(fromBase64(pinned.get(batch.pin).keys.analyzer.seal), info);
    const slots = fillSlots(await randomize(batch.plan, value), batch.plan);
    batches.push({ number: batch.number, sealed: await Promise.all(slots.map((slot) => seal(slot))) });
  }
  const report = random(16);
  const frontKey = fromBase64(keys.front.seal);
  const seal = await sealer(frontKey, reportInfo(experiment, hash));
  const sealed = await seal(packReport(report, token, offer.number, batches));
  return { report: base64(report), body: base64(await packUpload(frontKey, hash, sealed)) };
}
