// The report as bytes, from messages to the body of an upload (docs/wire.md).

import { base64, concat, fromBase64, number, random, sha256, utf8 } from "./bytes.js";
import { randomize } from "./randomizing.js";
import { SUITE, sealer } from "./sealing.js";

const ZERO = new Uint8Array(1);

export const batchHash = (batch) => sha256(concat(number(batch.number, 4), utf8(batch.text)));

export const messageInfo = (experiment, configurationHash, hash) =>
  concat(utf8("croupier/1 message"), ZERO, utf8(experiment), ZERO, configurationHash, hash);

export const reportInfo = (experiment, configurationHash) =>
  concat(utf8("croupier/1 report"), ZERO, utf8(experiment), ZERO, configurationHash);

// Messages first, dummies after them: the order says nothing, since each is sealed and the shuffler cannot open it.
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

export async function packUpload(shufflerKey, configurationHash, sealedReport) {
  const keyId = (await sha256(shufflerKey)).slice(0, 8);
  return concat(Uint8Array.of(1, SUITE.number), keyId, configurationHash, sealedReport);
}

// Randomizes and seals: {report, body} in base64. Called once for a turn, and what it returns is kept.
export async function sealReport({ configuration, hash, offer, token }, value) {
  const { experiment, keys } = configuration;
  const batches = [];
  for (const { number: batch, text, plan } of offer.batches) {
    const info = messageInfo(experiment, hash, await batchHash({ number: batch, text }));
    const seal = await sealer(fromBase64(keys.analyzer.seal), info);
    const slots = fillSlots(await randomize(plan, value), plan);
    batches.push({ number: batch, sealed: await Promise.all(slots.map((slot) => seal(slot))) });
  }
  const report = random(16);
  const shufflerKey = fromBase64(keys.shuffler.seal);
  const seal = await sealer(shufflerKey, reportInfo(experiment, hash));
  const sealed = await seal(packReport(report, token, offer.number, batches));
  return { report: base64(report), body: base64(await packUpload(shufflerKey, hash, sealed)) };
}
