// What goes wrong around the client: words of servers that no honest one says, stores, clocks, and what older versions
// left behind.

import { Account, Client, Kept, Shown, Turn } from "./croupier.js";
import { hex } from "./bytes.js";
import { answer, outcome, quiet, sizeOf } from "./checks.js";
import { staged } from "./app_checks.js";
import { readMechanism } from "./mechanism.js";
import { turnDelta } from "./privacy.js";
import { problemOf } from "./problems.js";

// What is made of problem documents, as {reason, length of the message, seconds to wait}, or the name of an error.
export const documents = (bodies) =>
  bodies.map((body) => {
    try {
      const { reason, message, retryAfter = null } = problemOf({ status: 409, body, retryAfter: null });
      return { reason, length: message.length, retryAfter };
    } catch (error) {
      return error.name;
    }
  });

// How often a front is asked that has nothing and wants to be asked again at once, within a second of patience; `back`:
// the clock is set back meanwhile.
export const impatient = (cases) => Promise.all(cases.map(keepAsking));

async function keepAsking({ retryAfter, back = 0, ...given }) {
  const problem = { type: "urn:croupier:error:nothing-open", retry_after: retryAfter };
  let asked = 0;
  const stage = staged(given);
  const fetch = async (url) => {
    if (!url.endsWith("/assignments")) return answer(200, given.configuration);
    stage.now -= back;
    asked += 1;
    return answer(409, problem);
  };
  const began = performance.now();
  const { refused } = await outcome(stage.client({ fetch }).play("colours", { patience: 1 }));
  return { refused, asked, waited: (performance.now() - began) / 1000 };
}

// Timers of a browser end at once when they are set to more than 2^31 milliseconds.
export async function longTimeouts({ timeouts, ...given }) {
  const slow = { ...given, broken: { assignments: "slow" } };
  const plays = timeouts.map((timeout) =>
    staged(slow).client({ answerTimeout: timeout ?? Infinity }).play("colours", { timeout: timeout ?? Infinity }));
  return (await Promise.all(plays)).map((turn) => turn instanceof Turn);
}

// Two turns of one device, the report of the first of which meets `words` of its front: how many reports arrive.
export async function neighbours({ words, ...given }) {
  const stage = staged(given);
  const first = stage.client({ fetch: failing(stage, given, words) });
  const turn = await first.play("colours", { sticky: false });
  stage.now = turn.reportAt;
  await outcome(first.sendDue());
  stage.now += 100;
  const next = await first.play("colours", { sticky: false });
  stage.now = next.reportAt + 100;
  const { refused = null } = await outcome(first.sendDue());
  return { refused, uploads: stage.uploads.length, reports: stage.reports };
}

// The first report that comes is answered with `words`, every time; others are accepted.
function failing(stage, { configuration, offer }, words) {
  stage.reports = 0;
  let refused = null;
  return async (url, { body } = {}) => {
    if (url.endsWith("/assignments")) return turnOn(offer);
    if (!url.endsWith("/reports")) return answer(200, configuration);
    stage.reports += 1;
    refused ??= hex(body);
    if (hex(body) === refused) return answer(503, words);
    stage.uploads.push(hex(body));
    return answer(201, { status: "accepted" });
  };
}

const turnOn = (offer) => answer(201, { offer, token: "A".repeat(75), expires: 2 ** 33 });

// A store that breaks at a step: play, with and without a default, report, what is left, and what was sent.
export async function broken({ step, how, ...given }) {
  const memory = staged(given).account.store;
  let failures = 0;
  const store = {
    read: () => (step === "read" ? fail() : memory.read()),
    change: (update) => (step === "change" ? fail() : memory.change(update)),
  };
  const fail = async () => {
    failures += 1;
    throw how === "null" ? null : new DOMException("no room", how);
  };
  const stage = staged(given, { account: new Account(store, { clock: () => 1e6 }) });
  const client = stage.client();
  const shown = await client.play("colours", { default: "red" });
  const found = await Promise.all([
    client.play("colours"), client.join("colours"), client.turns(), client.sendDue(), client.account.left(),
  ].map(outcome));
  return {
    failures: failures > 0, why: shown.why?.reason, armName: shown.armName, sent: stage.sent.map(([, what]) => what),
    refused: found.map(({ refused = null }) => refused),
  };
}

// IndexedDB that is missing, refuses to be opened, or has no room left: what each thing that an app does meets.
export async function noDatabase(how) {
  const { open } = IDBFactory.prototype;
  const { put } = IDBObjectStore.prototype;
  if (how === "full") IDBObjectStore.prototype.put = () => { throw new DOMException("full", "QuotaExceededError"); };
  else IDBFactory.prototype.open = () => { throw new DOMException("private", "SecurityError"); };
  try {
    const account = new Account(new Kept("trouble"));
    const taken = { id: "r", reportAt: 0, until: 0 };
    const charge = account.charge({ experiment: "x", privacy: { epsilon: 1, delta: 0 } }, taken);
    const found = await Promise.all([charge, account.left(), account.record("r", 1)].map(outcome));
    return found.map(({ refused }) => refused);
  } finally {
    IDBFactory.prototype.open = open;
    IDBObjectStore.prototype.put = put;
  }
}

// A store whose connection ends between two steps, as when a user clears the site's data: the next step opens it anew.
export async function lostConnection() {
  const account = new Account(new Kept("lost"));
  const { transaction } = IDBDatabase.prototype;
  await account.left();
  let lost = 0;
  IDBDatabase.prototype.transaction = function (...given) {
    if ((lost += 1) === 1) this.close();
    return transaction.apply(this, given);
  };
  const found = await outcome(account.left());
  IDBDatabase.prototype.transaction = transaction;
  return [found.value?.epsilon ?? found.refused, (await account.left()).epsilon];
}

// A turn as an older version kept it, which this one cannot read, beside one that it can: all that an app may do.
export async function older({ text, ...given }) {
  const stage = staged(given);
  const client = stage.client();
  const first = await client.play("colours", { sticky: false });
  const second = await client.play("colours", { sticky: false });
  await stage.account.store.change((state) => {
    const spoiled = { ...state.taken[first.id], turn: text };
    return { ...state, taken: { ...state.taken, [first.id]: spoiled } };
  });
  const turns = (await client.turns()).map((turn) => turn.id);
  const again = await client.play("colours");
  stage.now = Math.max(first.reportAt, second.reportAt);
  await client.sendDue();
  const { trouble } = client;
  const waiting = sizeOf((await stage.account.kept()).taken);
  stage.now = first.until;
  const due = await client.sendDue();
  return {
    turns: turns.length === 1 && turns[0] === second.id, again: again instanceof Shown || again.id === second.id,
    uploads: stage.uploads.length, trouble, waiting, due, after: client.trouble,
    left: sizeOf((await stage.account.kept()).taken),
  };
}

// A report that met no answer, and then the clock is set back by a year: seconds until it is sent again.
export async function setBack(given) {
  const stage = staged(given);
  stage.now = 1e9;
  const client = stage.client();
  const turn = await client.play("colours");
  stage.now = turn.reportAt;
  stage.broken.reports = true;
  const first = await client.sendDue();
  stage.now -= 366 * 86_400;
  stage.broken.reports = false;
  const due = await client.sendDue();
  return { first, due, uploads: stage.uploads.length };
}

// How often a timer of the page ran while δ of many batches was computed.
export async function breathing({ mechanisms, epsilon }) {
  let ticks = 0;
  const timer = setInterval(() => (ticks += 1));
  const delta = await turnDelta(mechanisms.map(readMechanism), epsilon);
  clearInterval(timer);
  return { ticks, delta };
}

// What a device says of a configuration, in time.
export async function joinsSoon({ statement }) {
  const fetch = async () => answer(200, statement);
  const client = new Client("https://analyzer.example", { fetch, ...quiet });
  const began = performance.now();
  const { refused = null } = await outcome(client.join("colours"));
  return { refused, waited: (performance.now() - began) / 1000 };
}
