"""The browser's client on a web site of its own, and what the tests ask of it there, in JavaScript."""

from __future__ import annotations

import json
import shutil
import threading
import zlib
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CLIENT = Path(__file__).parents[3] / "clients" / "javascript"


class _Site(SimpleHTTPRequestHandler):
    """Serves the client's files, one empty page, the module below, and servers that answer as no honest one does."""

    def do_GET(self) -> None:
        made = {"/empty.html": ("text/html", "<!doctype html><title>empty</title>"), "/checks.js": (JS, CHECKS)}
        if self.path.startswith("/hostile/"):
            with suppress(ConnectionError):
                HOSTILE[self.path.split("/")[2]](self)
        elif self.path in made:
            kind, text = made[self.path]
            self._begin(200, {"content-type": kind})
            self.wfile.write(text.encode())
        else:
            super().do_GET()

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def endless(self) -> None:
        """More than a device needs; it does end, for a client that would read on."""
        self._begin(200, {})
        for _ in range(256):
            self.wfile.write(b" " * 2**20)
        REACHED.add("endless")

    def bomb(self) -> None:
        """Little that unpacks to much."""
        self._begin(200, {"content-encoding": "deflate"})
        self.wfile.write(zlib.compress(b" " * 64 * 2**20))

    def stalled(self) -> None:
        """A head, and then nothing until the client has gone."""
        self._begin(200, {"content-length": "2"})
        self.rfile.read(1)

    def elsewhere(self) -> None:
        self._begin(307, {"location": "/hostile/moved"})

    def moved(self) -> None:
        REACHED.add("moved")
        self._begin(200, {})

    def log_message(self, *_: object) -> None:
        pass


HOSTILE = {name: getattr(_Site, name) for name in ("endless", "bomb", "stalled", "elsewhere", "moved")}
REACHED: set[str] = set()
"""Where no client should get: the end of what is endless, and where a redirection leads."""


@contextmanager
def site(directory: Path):
    """A web site that is neither server's, with the client's files: pages of it are clients of another origin."""
    shutil.copytree(CLIENT, directory)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Site, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_demo(directory: Path, name: str, analyzer: str, front: str, experiment: str, trust: dict[str, str]):
    """A copy of the demo's page with its own settings, written into its files as its author would."""
    shutil.copytree(CLIENT / "demo", directory / name)
    settings = {"ANALYZER": analyzer, "EXPERIMENT": experiment, "TRUST": trust}
    code = "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in settings.items())
    (directory / name / "settings.js").write_text(code)
    page = directory / name / "index.html"
    text = page.read_text()
    for shipped, here in {"http://127.0.0.1:8400": analyzer, "http://127.0.0.1:8401": front}.items():
        assert text.count(shipped) == 1
        text = text.replace(shipped, here)
    page.write_text(text)


JS = "text/javascript"
CHECKS = r"""
import { Account, Client, Kept, Problem, Refused } from "./croupier.js";
import { base64, concat, fromBase64, fromHex, hex, utf8 } from "./bytes.js";
import { checkOffer, mostHonest, readConfiguration, readOffer, verifyKeys } from "./configuration.js";
import { LIMITS } from "./limits.js";
import { leastPieces, readMechanism } from "./mechanism.js";
import { law, sample, sampleBits, spread } from "./noise.js";
import { fixedToDouble } from "./numbers.js";
import { binomial, counted, turnDelta } from "./privacy.js";
import { encoded, messagesOf, randomize, rounded } from "./randomizing.js";
import { open, sealer } from "./sealing.js";
import { checkSigned, hashOf } from "./statements.js";
import { blindRequest, challengeOf, tokenRequest } from "./tokens.js";
import { batchHash, fillSlots, messageInfo, packReport, packUpload, reportInfo, sealReport } from "./wire.js";

const nameOf = (error) => error.reason ?? error.token ?? error.name;
const outcome = (promise) => promise.then((value) => ({ value }), (error) => ({ refused: nameOf(error) }));
export const limits = LIMITS;
const trust = "first-seen";

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
  checkOffer(offer, configuration);
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
  const pinned = new Map([[base64(hash), configuration]]);
  const turn = { configuration, pinned, hash, offer, token: fromHex(vector.token) };
  const sent = await Promise.all([1, 2].map(async () => fromBase64((await sealReport(turn, vector.value)).body)));
  const own = await Promise.all(sent.map(async (body) => hex(await open(keys.front, info, body.slice(42)))));
  return { whole, opened, batches, own, lengths: sent.map((body) => body.length) };
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
    const paid = account.charge({ ...turn, privacy: turn, batches }, { report: String(at) });
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
  const joined = await new Client("https://analyzer.example", { fetch, trust }).join("colours");
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

const answer = (status, body) => new Response(JSON.stringify(body), { status });
const turnWith = (offer) => answer(201, { offer, token: base64(new Uint8Array(56)), expires: 2 ** 33 });

// A turn against servers that answer with what a vector holds: what was refused, why, and all that was sent.
export async function turn({ before, configuration, offer, kept }) {
  const sent = [];
  let joining = before ?? configuration;
  const fetch = async (url, { method = "GET" } = {}) => {
    sent.push(`${method} ${new URL(url).pathname.split("/").at(-1)}`);
    if (url.endsWith("/assignments")) return turnWith(offer);
    if (url.includes("/configurations/")) return answer(200, kept[url.split("/").at(-1)]);
    return url.endsWith("/reports") ? answer(201, { status: "accepted" }) : answer(200, joining);
  };
  const client = new Client("https://analyzer.example", { fetch, trust: "first-seen" });
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
  const client = new Client(`${location.origin}/hostile/${kind}`, { trust, attempts: 1, timeout: 2 });
  return client.join("x").then(() => "joined", (error) => error.message);
};

// Signing keys that are none.
export const mistrusted = (keys) =>
  Promise.all(keys.map((trust) => outcome((async () => new Client("https://analyzer.example", { trust }))())));

// Two analyzers that call an experiment by one name: each is believed by its own keys alone.
export async function namesakes({ first, second }) {
  const account = new Account();
  const shown = { one: first, other: second };
  const fetch = async (url) => answer(200, shown[new URL(url).host.split(".")[0]]);
  const join = (host) => outcome(new Client(`https://${host}.example`, { account, fetch, trust }).join("colours"));
  const found = [await join("one"), await join("other"), await join("one")];
  shown.one = second;
  return [...found, await join("one")].map(({ refused }) => refused ?? null);
}

// What a device with limits of its own says of configurations, one after another.
export async function joins({ statements, own }) {
  const shown = [...statements];
  const fetch = async () => answer(200, shown.shift());
  const account = new Account(undefined, { limits: own });
  const client = new Client("https://analyzer.example", { account, fetch, trust });
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
  const client = new Client("https://analyzer.example", { fetch, trust });
  await client.report(await client.play("colours"), 1);
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
      : account.charge({ experiment, privacy: { epsilon, delta: 0 }, batches }, { report });
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

// Devices, each with an account of its own, until the experiment ends: how often each outcome came with each value.
async function crowd({ analyzer, name, devices, values }) {
  const own = { epsilon: 100, users: 2, epsilonPerPeriod: 100, honestFraction: 1 };
  const found = {};
  const add = (what) => (found[what] = (found[what] ?? 0) + 1);
  async function device(at) {
    const client = new Client(analyzer, { account: new Account(undefined, { limits: own }), trust });
    const turn = await client.play(name, { patience: 60 });
    const value = turn.arm === null ? values[at % values.length] : values[turn.arm];
    await client.report(turn, value);
    add(`accepted ${value}`);
  }
  let next = 0;
  let over = false;
  async function worker() {
    while (next < devices && !over) {
      const problem = await device((next += 1)).catch((error) => error);
      if (problem) add(nameOf(problem));
      if (problem && !(problem instanceof Problem)) throw problem;
      over ||= problem?.token === "experiment-finished";
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
    return account.charge({ experiment: "open", privacy: { epsilon: 1, delta: 0 } }, { report: String(at) });
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
  await Promise.all([account.left(), account.pending(), account.charge({ experiment: "x", privacy }, { report: "r" })]);
  await account.settle("r");
  IDBFactory.prototype.open = open;
  return counts;
}

export async function spoil(value) {
  await new Kept().change(() => value);
  return (await outcome(new Account(new Kept()).left())).refused;
}

const otherEnd = (signature) => signature.replace(/^./, (first) => (first === "A" ? "B" : "A"));

// Turns with real servers until one is refused: why, and all that was sent. `forged`: whose signature is changed.
export async function meet({ analyzer, name, own, forged }) {
  const sent = [];
  const fetch = async (url, options = {}) => {
    sent.push(`${options.method ?? "GET"} ${new URL(url).pathname.split("/").at(-1)}`);
    const response = await globalThis.fetch(url, options);
    if (!forged || !url.endsWith(name)) return response;
    const body = await response.json();
    body.signatures[forged] = otherEnd(body.signatures[forged]);
    return answer(200, body);
  };
  const client = new Client(analyzer, { account: new Account(undefined, { limits: own }), fetch, trust });
  for (;;) {
    const { value, refused } = await outcome(client.play(name, { patience: 30 }));
    if (refused) return { refused, sent, left: (await client.account.left()).epsilon };
    await client.report(value, 1);
  }
}

async function standing({ account }) {
  return { pending: (await account.pending()).length, left: (await account.left()).epsilon };
}

// A report that arrives and whose answer does not: the account is the page's own.
export async function loseAnswer({ analyzer, name }) {
  const bodies = [];
  const fetch = async (url, options) => {
    const response = await globalThis.fetch(url, options);
    if (!url.endsWith("/reports")) return response;
    bodies.push(hex(options.body));
    throw new TypeError("the answer was lost");
  };
  const client = new Client(analyzer, { account: new Account(new Kept()), trust, fetch, attempts: 2 });
  const { refused } = await outcome(client.report(await client.play(name, { patience: 30 }), 1));
  return { refused, bodies, ...(await standing(client)) };
}

export async function resume({ analyzer }) {
  const bodies = [];
  const fetch = (url, options) => (bodies.push(hex(options.body)), globalThis.fetch(url, options));
  const client = new Client(analyzer, { account: new Account(new Kept()), trust, fetch });
  const accepted = await client.resume();
  return { accepted, bodies, ...(await standing(client)) };
}
"""
