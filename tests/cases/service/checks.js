// What the tests ask of the client in a browser: bytes, laws, refusals, and real servers.

import { Account, Client, Kept, Problem, Shown, Turn } from "./croupier.js";
import { base64, concat, fromBase64, fromHex, hex, utf8 } from "./bytes.js";
import { checkOffer, mostHonest, readConfiguration, readOffer, verifyKeys } from "./configuration.js";
import { LIMITS } from "./limits.js";
import { leastPieces, readMechanism } from "./mechanism.js";
import { law, sample, sampleBits, spread } from "./noise.js";
import { fixedToDouble } from "./numbers.js";
import { binomial, counted, turnDelta } from "./privacy.js";
import { Prio3 } from "./prio3.js";
import { encoded, messagesOf, randomize, rounded } from "./randomizing.js";
import { open, sealer } from "./sealing.js";
import { bothServers, words } from "./prio3_checks.js";
import { expand } from "./shares.js";
import { checkSigned, hashOf } from "./statements.js";
import { blindRequest, challengeOf, tokenRequest } from "./tokens.js";
import {
  bareShares, batchHash, fillSlots, messageInfo, packReport, packShared, packUpload, provedShares, reportInfo, scopesOf,
  sealReport, shareInfo,
} from "./wire.js";

export const nameOf = (error) => error.reason ?? error.name;
export const outcome = (promise) => promise.then((value) => ({ value }), (error) => ({ refused: nameOf(error) }));
export const limits = LIMITS;
export const quiet = { background: false }; // what is sent is sent by the test

// WebCrypto takes a raw private key only inside PKCS #8, and tells its public half only as a JSON key.
async function pairOf(privateHex) {
  const wrapped = concat(fromHex("302e020100300506032b656e04220420"), fromHex(privateHex));
  const privateKey = await crypto.subtle.importKey("pkcs8", wrapped, { name: "X25519" }, true, ["deriveBits"]);
  const { x } = await crypto.subtle.exportKey("jwk", privateKey);
  return { privateKey, publicKey: await crypto.subtle.importKey("raw", fromBase64(x), { name: "X25519" }, true, []) };
}

const listed = (noise) => Object.entries(noise).flatMap(([label, times]) => Array(times).fill(Number(label)));

// All stages of one report, from what a vector gives and not from what it expects.
export async function report(vector) {
  const configuration = readConfiguration(vector.configuration.body);
  for (const kind of ["configuration", "offer"]) await checkSigned(kind, vector[kind], verifyKeys(configuration));
  const hash = await hashOf("configuration", vector.configuration);
  const offer = readOffer(vector.offer.body);
  await checkOffer(offer, configuration);
  const { analyzer, front } = vector.private_seal;
  const keys = { analyzer: await pairOf(analyzer), front: await pairOf(front) };
  const [batches, parts] = [[], []];
  for (const [at, batch] of offer.batches.entries()) {
    const given = vector.batches?.[at] ?? vector;
    const { plan } = batch;
    const info = messageInfo("colours", batch.pin, await batchHash(batch));
    const found = { batch_hash: base64(await batchHash(batch)), slots: plan.slots, slot_length: plan.length + 1 };
    Object.assign(found, { cap: plan.cap, front: plan.front, message_info: hex(info), messages: given.messages });
    const opened = given.messages.map((message) => open(keys.analyzer, info, fromHex(message)));
    found.opened = (await Promise.all(opened)).map(hex);
    if (given.drawn) {
      const drawn = plan.way === "labels" ? { ...given.drawn, noise: listed(given.drawn.noise) } : given.drawn;
      const slots = fillSlots(messagesOf(plan, drawn), plan);
      const seal = await sealer(fromBase64(configuration.keys.analyzer.seal), info);
      const pairs = await Promise.all(given.ephemeral.map(pairOf));
      found.opened = slots.map(hex);
      found.messages = (await Promise.all(slots.map((slot, i) => seal(slot, pairs[i])))).map(hex);
    }
    const own = fillSlots(await randomize(plan, vector.value), plan);
    found.fits = own.length === plan.slots && own.every((slot) => slot.length === plan.length + 1);
    batches.push(found);
    parts.push({ number: batch.number, sealed: found.messages.map(fromHex) });
  }
  const packed = packReport(fromHex(vector.report_id), fromHex(vector.token), offer.number, parts);
  const info = reportInfo("colours", hash);
  const sealKey = fromBase64(configuration.keys.front.seal);
  const ephemeral = vector.report_ephemeral && (await pairOf(vector.report_ephemeral));
  const sealed = ephemeral ? await (await sealer(sealKey, info))(packed, ephemeral) : fromHex(vector.upload).slice(42);
  const upload = hex(await packUpload(sealKey, hash, sealed));
  const opened = hex(await open(keys.front, info, fromHex(vector.upload).slice(42)));
  const whole = { configuration_hash: base64(hash), report: hex(packed), report_info: hex(info), upload };
  const turns = [1, 2].map(() => turnOf(vector));
  const sent = await Promise.all(turns.map((turn) => sealReport(turn, vector.value)));
  const own = await Promise.all(sent.map(async (body) => hex(await open(keys.front, info, body.slice(42)))));
  return { whole, opened, batches, own, lengths: [...sent.map((body) => body.length), turns[0].bytes] };
}

// A turn on a vector's offer, as it is kept and taken up again.
function turnOf({ configuration: statement, offer, token }) {
  const names = { version: 1, configuration: statement, offer: offer.body, token: base64(fromHex(token)) };
  const id = base64(crypto.getRandomValues(new Uint8Array(16)));
  const body = { ...names, expires: 0, pinned: {}, id, taken_at: 0, report_at: 0 };
  const turn = Turn.fromJSON(JSON.stringify(body));
  return Turn.fromJSON(JSON.stringify(turn));
}

// All stages of one report in shares, from what a vector gives and not from what it expects; and two of its own, opened
// by both servers and put together.
export async function shared(vector) {
  const configuration = readConfiguration(vector.configuration.body);
  for (const kind of ["configuration", "offer"]) await checkSigned(kind, vector[kind], verifyKeys(configuration));
  const hash = await hashOf("configuration", vector.configuration);
  const offer = readOffer(vector.offer.body);
  await checkOffer(offer, configuration);
  const [report, sealKey] = [fromHex(vector.report_id), fromBase64(configuration.keys.analyzer.seal)];
  const isProved = configuration.validity.kind === "prio3";
  const given = (await scopesOf(offer)).map((scope, at) => {
    const secret = vector.parts[at].secret.map(BigInt);
    return { scope, plan: offer.batches[at].plan, secret, info: shareInfo("colours", hash, scope, at, report) };
  });
  const { front, analyzer } = isProved
    ? provedShares(given, report, fromHex(vector.parts[0].rand))
    : bareShares(given, fromHex(vector.front_part));
  const parts = [];
  for (const [at, { scope, plan, secret, info }] of given.entries()) {
    const { ephemeral } = vector.parts[at];
    const sealed = await (await sealer(sealKey, info))(analyzer[at], await pairOf(ephemeral));
    const bytes = { scope, share_info: info, analyzer_share: analyzer[at], sealed };
    const hexes = Object.fromEntries(Object.entries(bytes).map(([name, one]) => [name, hex(one)]));
    const own = isProved ? checkedBy(vector.parts[at], plan, report, info, front, analyzer[at])
      : { front_share: expand(plan.residues, front, info, secret.length).map(String) };
    parts.push({ ...hexes, modulus: String(plan.residues.modulus), secret: secret.map(Number), ephemeral, ...own });
  }
  const seals = parts.map((part) => fromHex(part.sealed));
  const packed = packShared(report, fromHex(vector.token), offer.number, front, seals);
  const info = reportInfo("colours", hash);
  const frontKey = fromBase64(configuration.keys.front.seal);
  const sealed = await (await sealer(frontKey, info))(packed, await pairOf(vector.report_ephemeral));
  const upload = hex(await packUpload(frontKey, hash, sealed));
  const made = { configuration_hash: base64(hash), report: hex(packed), report_info: hex(info), upload, parts };
  const whole = { ...made, front_part: hex(front) };
  return { whole, own: await Promise.all([1, 2].map(() => putTogether(vector, offer, hash, isProved))) };
}

// What both servers make of the two shares of a proved report, with a vector's key, in a vector's words.
function checkedBy({ rand, proof_key }, plan, report, info, front, analyzer) {
  const found = bothServers(plan, { report, info, front, analyzer, key: fromHex(proof_key) });
  const [leader, helper] = found.servers;
  const shown = { analyzer_verifier: leader.shown, front_verifier: helper.shown };
  const outputs = { analyzer_output: leader.output, front_output: helper.output };
  const shares = { leader_share: found.leader, helper_share: found.helper, public_share: found.publicShare };
  return { type: found.type, rand, proof_key, message: found.message, ...shares, ...shown, ...outputs };
}

async function putTogether(vector, offer, hash, isProved) {
  const turn = turnOf(vector);
  const body = await sealReport(turn, vector.value);
  const keys = { analyzer: await pairOf(vector.private_seal.analyzer), front: await pairOf(vector.private_seal.front) };
  const opened = await open(keys.front, reportInfo("colours", hash), body.slice(42));
  const [{ plan }] = offer.batches;
  const { helper, publicShare } = isProved ? plan.prio3.sizes : { helper: 32, publicShare: 0 };
  let at = 76 + helper + publicShare / 2;
  const [id, front] = [opened.slice(0, 16), opened.slice(76, at)];
  const numbers = [];
  for (const [part, scope] of (await scopesOf(offer)).entries()) {
    const { residues, outputs } = offer.batches[part].plan;
    const info = shareInfo("colours", hash, scope, part, id);
    const length = isProved ? plan.prio3.sizes.leader + publicShare / 2 : residues.size * outputs;
    const analyzer = await open(keys.analyzer, info, opened.slice(at, (at += length + 48)));
    if (isProved) {
      const { message, result } = bothServers(plan, { report: id, info, front, analyzer, key: new Uint8Array(32) });
      numbers.push(message === null ? "refused" : result);
    } else {
      const mask = expand(residues, front, info, outputs);
      const other = words(residues, analyzer);
      numbers.push(mask.map((own, i) => Number((own + other[i]) % residues.modulus)));
    }
  }
  const named = { id: hex(id), named: hex(turn.report), seed: hex(front.slice(0, 32)) };
  return { length: body.length, bytes: turn.bytes, whole: at === opened.length, ...named, numbers };
}

// What a device says of mechanisms in the place of the one that a vector's offer names.
export function covered({ vector, mechanisms }) {
  const configuration = readConfiguration(vector.configuration.body);
  return Promise.all(mechanisms.map(async (mechanism) => {
    const offer = JSON.parse(vector.offer.body);
    offer.batches = offer.batches.map((batch) => ({ ...batch, mechanism }));
    const found = await outcome((async () => checkOffer(readOffer(JSON.stringify(offer)), configuration))());
    return found.refused ?? null;
  }));
}

export const refusesSuite = (vector) => outcome((async () => readConfiguration(vector.configuration.body))());

export async function seal({ public: key, info, plaintext, ephemeral }) {
  const sealing = await sealer(fromHex(key), fromHex(info));
  return hex(await sealing(fromHex(plaintext), await pairOf(ephemeral)));
}

function firstOf(share, parties, terms) {
  const found = [];
  for (const mass of law(share, parties)) if (found.push(fixedToDouble(mass)) === terms) return found;
}

// Laws as they are drawn (of a difference, one of its two parts) and as they are tabulated for δ: [first, table].
export function laws({ share, parties, terms }) {
  const { family } = share;
  if (family === "Binomial" || family === "SparseBits") {
    const { first, table } = binomial((share.trials ?? share.slots) * parties, share.p ?? share.rate);
    return [[first, table]];
  }
  const { first, table } = counted({ ...share, family: family === "Poisson" ? family : "Polya" }, parties);
  return [[0, firstOf(share, parties, terms)], [first, table]];
}

export const plan = (text) => {
  const { cap, slots, excess, front, frontExcess } = readMechanism(text);
  return { cap, slots, excess, front, frontExcess };
};
export const delta = ({ mechanisms, epsilon }) => turnDelta(mechanisms.map(readMechanism), epsilon);
export const priced = (vectors) => Promise.all(vectors.map((vector) => outcome((async () => delta(vector))())));
export const honest = ([share, users]) => mostHonest(share, users);
export const pieces = ({ modulus, honest, security }) => leastPieces(modulus, honest, security);

export function encoding({ values, precision, value }) {
  try {
    return encoded({ values, precision }, value);
  } catch (error) {
    return nameOf(error);
  }
}

// What each turn is charged; whatever the experiment, it is joined first, so that its period counts.
export async function ledger({ turns }) {
  let now = 0;
  const account = new Account(undefined, { clock: () => now });
  const keys = { analyzer: "a", front: "s" };
  const charged = [];
  for (const [at, turn] of turns.entries()) {
    now = turn.at;
    await account.trust(turn.experiment, { revision: 0, privacy: turn }, keys, "promise", null);
    const before = await account.left();
    const batches = Object.fromEntries(turn.batches.map((number) => [number, `${turn.experiment} ${number}`]));
    const paid = account.charge({ ...turn, privacy: turn, batches }, { id: String(at), reportAt: 0, until: 0 });
    const { refused, value } = await outcome(paid);
    const after = await account.left();
    const taken = refused ? null : before.epsilon - after.epsilon - value.epsilon;
    charged.push(refused ?? [value.epsilon, value.delta, taken]);
  }
  return charged;
}

export const ticket = ({ ticket: bytes }) => base64(fromHex(bytes));

// A token from fixed chance: the request, the token of an answer, and what is said of an answer that is changed.
export async function token({ pkS, token_challenge: asked, nonce, salt, blind, token_response: answer }) {
  const fixed = { nonce: fromHex(nonce), salt: fromHex(salt), factor: fromHex(blind) };
  const request = await blindRequest(fromHex(pkS), fromHex(asked), fixed);
  const wrong = fromHex(answer).map((byte, at) => (at === 200 ? byte ^ 1 : byte));
  const refused = await Promise.all([wrong, wrong.slice(1)].map((bytes) => outcome(request.finish(bytes))));
  return { request: hex(request.body), token: hex(await request.finish(fromHex(answer))), refused };
}

export const challenges = (vectors) =>
  vectors.map(({ issuer_name: issuer, redemption_context: context, origin_info: origins }) =>
    hex(challengeOf(fromHex(issuer), fromHex(context), fromHex(origins))));

// A token of an experiment that is joined: what goes to the issuer, and the token once there is an answer.
const asked = [];

export async function askForToken({ statement, known }) {
  const fetch = async () => answer(200, statement);
  const joined = await new Client("https://analyzer.example", { fetch, ...quiet }).join("colours");
  const { value, refused } = await outcome(tokenRequest(joined, known));
  if (refused) return { refused };
  return { at: asked.push(value) - 1, body: hex(value.body), headers: value.headers };
}

export const finishToken = async ({ at, answered }) => hex(await asked[at].finish(fromHex(answered)));

export async function receipt({ configuration, receipt: statement }) {
  const keys = verifyKeys(readConfiguration(configuration.body));
  const signed = (kind, signers) => outcome(checkSigned(kind, statement, keys, signers)).then(({ refused }) => refused);
  return [await signed("release", ["front"]), await signed("release"), await signed("offer", ["front"])];
}

export const answer = (status, body) => new Response(JSON.stringify(body), { status });
export const turnWith = (offer) => answer(201, { offer, token: base64(new Uint8Array(56)), expires: 2 ** 33 });

// A turn against servers that answer with what a vector holds: what was refused, why, and all that was sent.
export async function turn({ before, configuration, offer, kept, keys }) {
  const sent = [];
  let joining = before ?? configuration;
  const fetch = async (url, { method = "GET" } = {}) => {
    sent.push(`${method} ${new URL(url).pathname.split("/").at(-1)}`);
    if (url.endsWith("/assignments")) return turnWith(offer);
    if (url.includes("/configurations/")) return answer(200, kept[url.split("/").at(-1)]);
    return url.endsWith("/reports") ? answer(201, { status: "accepted" }) : answer(200, joining);
  };
  const client = new Client("https://analyzer.example", { fetch, keys, ...quiet });
  if (before) await client.join("colours");
  sent.length = 0;
  joining = configuration;
  const joined = await outcome(client.join("colours"));
  if (joined.refused) return { where: "configuration", why: joined.refused, sent };
  const played = await outcome(client.play("colours"));
  return { where: played.refused ? "offer" : null, why: played.refused ?? null, sent };
}

// What a client says of an answer that no honest server gives.
export const hostile = (kind) => {
  const client = new Client(`${location.origin}/hostile/${kind}`, { attempts: 1, answerTimeout: 2, ...quiet });
  return client.join("x").then(() => "joined", (error) => error.message);
};

// Signing keys that are none.
export const mistrusted = (given) =>
  Promise.all(given.map((keys) => outcome((async () => void new Client("https://analyzer.example", { keys }))())));

// Two analyzers that call an experiment by one name: each is believed by its own keys alone.
export async function namesakes({ first, second }) {
  const account = new Account();
  const shown = { one: first, other: second };
  const fetch = async (url) => answer(200, shown[new URL(url).host.split(".")[0]]);
  const join = (host) => outcome(new Client(`https://${host}.example`, { account, fetch, ...quiet }).join("colours"));
  const found = [await join("one"), await join("other"), await join("one")];
  shown.one = second;
  return [...found, await join("one")].map(({ refused }) => refused ?? null);
}

// What a device with limits of its own says of configurations, one after another.
export async function joins({ statements, own }) {
  const shown = [...statements];
  const fetch = async () => answer(200, shown.shift());
  const account = new Account(undefined, { limits: own });
  const client = new Client("https://analyzer.example", { account, fetch, ...quiet });
  const found = [];
  for (const _ of statements) found.push((await outcome(client.join("colours"))).refused ?? null);
  return found;
}

// A turn whose offer or batches belong to another configuration than was joined: all addresses that were asked, and
// the report.
export async function moving({ joined, offered, offer }) {
  const asked = [];
  let upload;
  const fetch = async (url, { method = "GET", body } = {}) => {
    asked.push(`${method} ${new URL(url).host} ${new URL(url).pathname.split("/")[3] ?? ""}`);
    if (url.endsWith("/assignments")) return turnWith(offer);
    if (url.endsWith("/reports")) return (upload = hex(body), answer(201, { status: "accepted" }));
    return answer(200, url.includes("/configurations/") ? offered : joined);
  };
  let now = 1e6;
  const account = new Account(undefined, { clock: () => now });
  const client = new Client("https://analyzer.example", { account, fetch, ...quiet });
  const turn = await client.play("colours");
  await client.report(turn, 1);
  now = turn.reportAt;
  await client.sendDue();
  return { asked, upload };
}

// An account whose clock shows these times: {join} with a period, or {epsilon} to be charged, at each.
export async function history({ events, ...limits }) {
  let now = 0;
  const account = new Account(undefined, { limits, clock: () => now });
  const found = [];
  for (const [report, { at, join, epsilon, batches }] of events.entries()) {
    now = at;
    const keys = { analyzer: "a", front: "s" };
    const experiment = join ? `period ${join}` : "x";
    const done = join
      ? account.trust(experiment, { revision: 0, privacy: { period: join } }, keys, "promise", null)
      : account.charge({ experiment, privacy: { epsilon, delta: 0 }, batches }, { id: report, reportAt: 0, until: 0 });
    found.push((await outcome(done)).refused ?? null);
  }
  return found;
}

// How many messages reports have whose noise may be one at most, though it is often more.
export async function limited({ mechanism, value, times }) {
  const plan = { ...readMechanism(mechanism), cap: 1 };
  return Promise.all(Array.from({ length: times }, async () => (await randomize(plan, value)).length));
}

export const roundings = ({ times, value, ...plan }) => Array.from({ length: times }, () => rounded(plan, value));

// So many draws of one party's noise; `size` spreads each over labels and counts those with label 0.
export function draws({ share, parties, times, size }) {
  if (size) {
    const zeros = () => spread(share, size, sample(share, size)).filter((label) => label === 0).length;
    return Array.from({ length: times }, zeros);
  }
  if (share.slots || share.trials) return Array.from({ length: times }, () => sampleBits(share));
  return Array.from({ length: times }, () => Number(sample(share, parties)));
}

const LIAR = 8; // every so many devices, where reports are proved

// The upload of a turn with numbers that no honest device has, each five times as large as it may be, proved as well as
// anybody can.
async function lieOf({ configuration: { experiment, keys }, offer, token, report }) {
  const [hash, { plan }] = [fromBase64(offer.configuration), offer.batches[0]];
  const { circuit } = plan.prio3;
  const beyond = { encode: () => Array(circuit.length).fill(5n), measurement: () => null };
  const info = shareInfo(experiment, hash, (await scopesOf(offer))[0], 0, report);
  const liar = { info, secret: null, plan: { prio3: new Prio3({ ...circuit, ...beyond }) } };
  const { front, analyzer } = provedShares([liar], report);
  const sealed = await (await sealer(fromBase64(keys.analyzer.seal), info))(analyzer[0]);
  const frontKey = fromBase64(keys.front.seal);
  const packed = packShared(report, token, offer.number, front, [sealed]);
  return packUpload(frontKey, hash, await (await sealer(frontKey, reportInfo(experiment, hash)))(packed));
}

// Devices, each with an account of its own, until the experiment ends: how often each outcome came with each value.
async function crowd({ analyzer, name, devices, values, keys }) {
  const own = { epsilon: 100, users: 2, epsilonPerPeriod: 100, honestFraction: 1 };
  const found = {};
  const add = (what) => (found[what] = (found[what] ?? 0) + 1);
  async function device(at) {
    let refused;
    let lie = null;
    const fetch = async (url, options) => {
      const sent = lie && url.endsWith("/reports") ? { ...options, body: lie } : options;
      const response = await globalThis.fetch(url, sent);
      if (url.endsWith("/reports") && !response.ok) refused = (await response.clone().json()).type.split(":").at(-1);
      return response;
    };
    const client = new Client(analyzer, { account: new Account(undefined, { limits: own }), keys, fetch, ...quiet });
    const turn = await client.play(name, { patience: 60 });
    const value = turn.arm === null ? values[at % values.length] : values[turn.arm];
    await client.report(turn, value);
    if (turn.configuration.validity.kind === "prio3" && at % LIAR === 0) lie = await lieOf(turn);
    const due = await client.sendDue();
    add(refused ?? (due !== null ? "kept" : lie ? "lied" : `accepted ${value}`));
  }
  let next = 0;
  let over = false;
  async function worker() {
    while (next < devices && !over) {
      const problem = await device((next += 1)).catch((error) => error);
      if (problem) add(nameOf(problem));
      if (problem && !(problem instanceof Problem)) throw problem;
      over ||= problem?.reason === "experiment-finished";
    }
  }
  await Promise.all(Array.from({ length: 6 }, worker));
  return found;
}

// All of them together.
export async function crowds({ values, ...rest }) {
  const found = Object.entries(values).map(async ([name, own]) => [name, await crowd({ ...rest, name, values: own })]);
  return Object.fromEntries(await Promise.all(found));
}

// Charges of one tab, all begun at once.
export function startCharges(times) {
  const charge = (at) => {
    const account = new Account(new Kept(), { limits: { epsilonPerPeriod: 100 } });
    const id = `${performance.timeOrigin} ${at}`;
    return account.charge({ experiment: "open", privacy: { epsilon: 1, delta: 0 } }, { id, reportAt: 0, until: 0 });
  };
  Promise.all(Array.from({ length: times }, (_, at) => charge(at))).then(() => (window.all = true));
}

export const kept = () => new Kept().read();

// How often the database was opened and the browser asked to keep it, while one account did several things.
export async function openings() {
  const counts = { opened: 0, asked: 0 };
  const { open } = IDBFactory.prototype;
  IDBFactory.prototype.open = function (...given) {
    counts.opened += 1;
    return open.apply(this, given);
  };
  StorageManager.prototype.persist = async () => (counts.asked += 1) > 0;
  const account = new Account(new Kept());
  const privacy = { epsilon: 1, delta: 0 };
  const taken = { id: "r", reportAt: 0, until: 0 };
  await Promise.all([account.left(), account.kept(), account.charge({ experiment: "x", privacy }, taken)]);
  await account.drop("r");
  IDBFactory.prototype.open = open;
  return counts;
}

export async function spoil(value) {
  await new Kept().change(() => value);
  return (await outcome(new Account(new Kept()).left())).refused;
}

const otherEnd = (signature) => signature.replace(/^./, (first) => (first === "A" ? "B" : "A"));

// Turns with real servers until one is refused: why, and all that was sent. `forged`: whose signature is changed.
export async function meet({ analyzer, name, own, forged, keys }) {
  const sent = [];
  const fetch = async (url, options = {}) => {
    sent.push(`${options.method ?? "GET"} ${new URL(url).pathname.split("/").at(-1)}`);
    const response = await globalThis.fetch(url, options);
    if (!forged || !url.endsWith(name)) return response;
    const body = await response.json();
    body.signatures[forged] = otherEnd(body.signatures[forged]);
    return answer(200, body);
  };
  const client = new Client(analyzer, { account: new Account(undefined, { limits: own }), fetch, keys, ...quiet });
  for (;;) {
    const { value, refused } = await outcome(client.play(name, { patience: 30, sticky: false }));
    if (refused) return { refused, sent, left: (await client.account.left()).epsilon };
    await client.report(value, 1);
    await client.sendDue();
  }
}

// A device that comes when an experiment has ended with an arm: what it is shown, and all that was sent.
export async function comesLate({ analyzer, name, keys }) {
  const sent = [];
  const fetch = (url, options = {}) => {
    sent.push(`${options.method ?? "GET"} ${new URL(url).pathname.split("/").at(-1)}`);
    return globalThis.fetch(url, options);
  };
  const account = new Account(undefined, { limits: { epsilon: 100, epsilonPerPeriod: 100 } });
  const client = new Client(analyzer, { account, fetch, keys, ...quiet });
  const { armName, isDefault, id, ...shown } = await client.play(name);
  const recorded = await client.report(new Shown(name, armName, shown.arm), 1);
  return { shown: [armName, isDefault, id], recorded, sent, left: (await client.account.left()).epsilon };
}

export const sizeOf = (entries) => Object.keys(entries).length;

export async function standing({ account }) {
  const { taken, pending } = await account.kept();
  return { taken: sizeOf(taken), pending: sizeOf(pending), left: (await account.left()).epsilon };
}

// A report that arrives and whose answer does not: the account is the page's own.
export async function loseAnswer({ analyzer, name, keys }) {
  const bodies = [];
  const fetch = async (url, options) => {
    const response = await globalThis.fetch(url, options);
    if (!url.endsWith("/reports")) return response;
    bodies.push(hex(options.body));
    throw new TypeError("the answer was lost");
  };
  const client = new Client(analyzer, { account: new Account(new Kept()), fetch, keys, attempts: 2, ...quiet });
  await client.report(await client.play(name, { patience: 30 }), 1);
  const due = await client.sendDue();
  return { due, trouble: client.trouble, bodies, ...(await standing(client)) };
}

// The next page that is opened sends it by itself.
export async function reopen({ analyzer, keys }) {
  const bodies = [];
  const fetch = (url, options) => (bodies.push(hex(options.body)), globalThis.fetch(url, options));
  const client = new Client(analyzer, { account: new Account(new Kept()), fetch, keys });
  while ((await standing(client)).pending) await new Promise((resolve) => setTimeout(resolve, 20));
  client.close();
  return { bodies, ...(await standing(client)) };
}
