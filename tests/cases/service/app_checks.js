// What the tests ask of the client as an app uses it: servers that answer with what a vector holds, and a clock of the
// test's own.

import { Account, Client, Kept, NoTurn, Shown, Turn } from "./croupier.js";
import { hex } from "./bytes.js";
import { answer, outcome, quiet, sizeOf, standing, turnWith } from "./checks.js";
import { readConfiguration, verifyKeys } from "./configuration.js";

const ASKED = ["assignments", "reports", "rules"];

export function staged({ configuration, offer, rule, broken = {}, failures = 0 }, more = {}) {
  const stage = { failures, now: 1e6, sent: [], broken: { ...broken }, uploads: [], said: [] };
  const fetch = async (url, { method = "GET", body, headers = {} } = {}) => {
    const what = ASKED.find((one) => url.includes(`/${one}`)) ?? "configuration";
    stage.sent.push([method, what, stage.now]);
    stage.said.push(JSON.stringify([url, headers]));
    if (what === "rules") return new Response(rule);
    if (stage.broken[what] === "slow") await new Promise((resolve) => setTimeout(resolve, 300));
    else if (stage.broken[what]) throw new TypeError("no network");
    if (what === "assignments") return turnWith(offer);
    if (what === "reports" && stage.failures-- > 0) return answer(503, {});
    if (what === "reports") return (stage.uploads.push(hex(body)), answer(201, { status: "accepted" }));
    return answer(200, configuration);
  };
  stage.account = more.account ?? new Account(undefined, { clock: () => stage.now });
  const keys = verifyKeys(readConfiguration(configuration.body));
  const common = { fetch, keys, attempts: 1, ...quiet };
  stage.client = (own = {}) => new Client("https://analyzer.example", { account: stage.account, ...common, ...own });
  return stage;
}

const times = (sent) => sent.filter(([, what]) => what === "reports").map(([, , at]) => at);

// The whole life of a turn, whatever is recorded: when it is sent, with how many bytes, and what is asked for before.
// `kept`: in a database of this name. `closed`: the page is closed from one step on, and opened again at another one.
export async function life({ outcomes, steps = 40, kept, closed = [], ...given }) {
  const stage = staged(given);
  const open = () => {
    if (kept) stage.account = new Account(new Kept(kept), { clock: () => stage.now });
    return stage.client();
  };
  let client = open();
  const turn = await client.play("colours");
  const recorded = [], [from, to] = closed;
  for (let step = 0; step < steps; step += 1) {
    if (step === from) client.close();
    if (step === to) client = open();
    if (!(step >= from && step < to)) {
      for (const [at, value] of outcomes) if (at === step) recorded.push(await client.report(turn, value));
      await client.sendDue();
    }
    stage.now += 200;
  }
  const { reportAt, takenAt } = turn;
  const requests = stage.sent.map(([method, what, at]) => [method, what, at - takenAt]);
  return { recorded, requests, lengths: stage.uploads.map((one) => one.length), at: reportAt - takenAt,
    uploads: stage.uploads, left: await standing(client), id: hex(turn.report) };
}

// What is said of outcomes that cannot be reported.
export async function unreportable({ outcomes, ...given }) {
  const client = staged(given).client();
  const turn = await client.play("colours");
  const found = [];
  for (const one of outcomes) found.push((await outcome(client.report(turn, one))).refused ?? null);
  return found;
}

// When turns are to be reported, in seconds after they were taken.
export async function moments({ turns, ...given }) {
  const stage = staged(given);
  const found = [];
  for (let at = 0; at < turns; at += 1) {
    stage.account = new Account(undefined, { clock: () => stage.now });
    const { reportAt, takenAt } = await stage.client().play("colours");
    found.push(reportAt - takenAt);
  }
  return found;
}

// What is not pinned, and everything that an app may meet instead of a turn.
export async function instead(given) {
  const found = {};
  const bare = staged(given).client({ keys: undefined });
  found.unpinned = (await outcome(bare.play("colours"))).refused;
  const shown = ({ armName, arm, isDefault, why, id }) => ({ armName, arm, isDefault, why: why?.reason ?? null, id });
  found.unpinnedDefault = shown(await bare.play("colours", { default: "green" }));
  for (const what of ["configuration", "assignments"]) {
    const client = staged({ ...given, broken: { [what]: true } }).client();
    found[what] = (await outcome(client.play("colours"))).refused;
    found[`${what}Default`] = shown(await client.play("colours", { default: "red" }));
    found[`${what}Reported`] = await client.report(await client.play("colours", { default: "red" }), 1);
  }
  const errors = await Promise.all(["unpinned", "down"].map((what) => {
    const stage = staged({ ...given, broken: what === "down" ? { configuration: true } : {} });
    const client = stage.client(what === "down" ? {} : { keys: undefined });
    return client.play("colours").catch((error) => error instanceof NoTurn);
  }));
  return { ...found, errors };
}

// What is said on the console where an app has misspelt a name, and has a default.
export async function misspelt(given) {
  const said = [], { warn } = console;
  console.warn = (message) => said.push(message);
  try {
    const client = staged(given).client();
    for (const fallback of ["red", "rde", "rde"]) await client.play("colours", { default: fallback });
    const missing = async () => answer(404, { type: "urn:croupier:error:unknown-experiment" });
    const lost = staged(given).client({ fetch: missing });
    for (const fallback of ["red", "red"]) await lost.play("colors", { default: fallback });
    await lost.play("colors").catch(() => {});
  } finally {
    console.warn = warn;
  }
  return said;
}

// A turn that comes too late for the app: what it shows instead, after how long, and that nothing of it is kept.
export async function late(given) {
  const stage = staged({ ...given, broken: { assignments: "slow" } });
  const client = stage.client();
  await client.join("colours");
  const began = performance.now();
  const shown = await client.play("colours", { timeout: 0.1, default: "red" });
  const waited = performance.now() - began;
  await new Promise((resolve) => setTimeout(resolve, 600));
  const { seen } = await stage.account.kept();
  return { why: shown.why.reason, armName: shown.armName, waited, seen: sizeOf(seen), ...(await standing(client)) };
}

// The same when the disk is slow: the turn was charged, and is forgotten.
export async function lateDisk(given) {
  const stage = staged(given);
  const { store } = stage.account;
  const change = store.change.bind(store);
  const client = stage.client();
  await client.join("colours");
  store.change = async (update) => {
    const found = await change(update);
    await new Promise((resolve) => setTimeout(resolve, 300));
    return found;
  };
  const shown = await client.play("colours", { timeout: 0.15, default: "red" });
  await new Promise((resolve) => setTimeout(resolve, 900));
  const { seen } = await stage.account.kept();
  return { why: shown.why.reason, seen: sizeOf(seen), ...(await standing(client)) };
}

// A user who returns: before and after the report, without a network, and when the arm was retired.
export async function returns({ retired, ...given }) {
  const stage = staged(given);
  const first = await stage.client().play("colours");
  const next = await stage.client().play("colours");
  stage.now = first.reportAt;
  await stage.client().sendDue();
  const after = await stage.client().play("colours");
  stage.broken.configuration = true;
  const offline = await stage.client().play("colours", { default: "green" });
  stage.broken.configuration = false;
  const fresh = await stage.client().play("colours", { sticky: false });
  const other = staged({ ...given, ...retired }, { account: stage.account });
  const drawn = await other.client().play("colours");
  return {
    same: next.id === first.id && next instanceof Turn,
    after: after instanceof Shown && after.armName === first.armName && !after.isDefault,
    offline: offline instanceof Shown && offline.armName === first.armName,
    fresh: fresh instanceof Turn && fresh.id !== first.id,
    drawn: drawn instanceof Turn && drawn.id !== fresh.id,
    assignments: stage.sent.filter(([, what]) => what === "assignments").length,
  };
}

// An experiment that has ended with an arm: what is shown to a new user, and to one who has seen another.
export async function ended({ before, ...given }) {
  const early = staged(before);
  const first = await early.client().play("colours");
  const later = staged(given, { account: early.account });
  const known = await later.client().play("colours");
  const fresh = staged(given);
  const shown = await fresh.client().play("colours");
  return {
    first: first.armName,
    shown: [known, shown].map((one) => [one instanceof Shown, one.armName, one.isDefault]),
    assignments: fresh.sent.filter(([, what]) => what === "assignments").length,
  };
}

// A device of which one report is taken: before it has reported, after it, and when its arm was retired.
export async function once({ retired, ...given }) {
  const stage = staged(given);
  const reason = (played) => played.then(() => null, (problem) => problem.reason);
  const first = await stage.client().play("colours", { sticky: false });
  const second = await reason(stage.client().play("colours", { sticky: false }));
  stage.now = first.reportAt;
  await stage.client().sendDue();
  const after = await reason(stage.client().play("colours", { sticky: false }));
  const again = await stage.client().play("colours");
  const other = staged({ ...given, ...retired }, { account: stage.account });
  const shown = await other.client().play("colours", { default: "green" });
  return {
    second, after,
    again: again instanceof Shown && again.armName === first.armName && !again.isDefault,
    shown: [shown.armName, shown.isDefault, shown.why?.reason],
    assignments: stage.sent.filter(([, what]) => what === "assignments").length,
    uploads: stage.uploads.length,
  };
}

// One page takes a turn with an account on the disk; another one, opened later, records what came of it and sends it.
export async function takeTurn(given) {
  const stage = staged(given, { account: new Account(new Kept()) });
  const turn = await stage.client().play("colours");
  return { id: turn.id, text: JSON.stringify(turn), reportAt: turn.reportAt };
}

export async function takeUp({ id, text, reportAt, value, ...given }) {
  const account = new Account(new Kept(), { clock: () => stage.now });
  const stage = staged(given, { account });
  stage.now = reportAt - 1;
  const client = stage.client();
  const known = (await client.turns()).map((turn) => turn.id);
  const recorded = await client.report(Turn.fromJSON(text), value);
  const unsent = [stage.uploads.length, await client.sendDue()];
  stage.now = reportAt;
  await client.sendDue();
  const gone = await client.turn(id);
  const lateRecord = await client.report(Turn.fromJSON(text), value);
  return { known, recorded, unsent, uploads: stage.uploads, gone, lateRecord };
}

// Two tabs that seal one turn at the same moment, while something is recorded.
export async function bothSeal({ first, then, ...given }) {
  const stage = staged(given);
  const [one, other] = [stage.client(), stage.client()];
  const turn = await one.play("colours");
  await one.report(turn, first);
  stage.now = turn.reportAt;
  const store = stage.account.store;
  const change = store.change.bind(store);
  let changes = 0;
  store.change = async (update) => {
    if ((changes += 1) === 1) await change((state) => {
      const taken = { ...state.taken[turn.id], outcome: [then] };
      return { ...state, taken: { ...state.taken, [turn.id]: taken } };
    });
    return change(update);
  };
  await Promise.all([one.sendDue(), other.sendDue()]);
  return { uploads: [...new Set(stage.uploads)], left: await standing(one) };
}

// Without an answer a report is kept, and sent again later and later; refused, it is over.
export async function patient(given) {
  const stage = staged(given);
  const client = stage.client();
  const turn = await client.play("colours");
  stage.now = turn.reportAt;
  stage.broken.reports = true;
  const waits = [];
  for (let at = 0; at < 4; at += 1) {
    waits.push(await client.sendDue());
    stage.now += waits.at(-1);
  }
  const trouble = client.trouble;
  stage.broken.reports = false;
  const due = await client.sendDue();
  return { waits, trouble, due, after: client.trouble, uploads: stage.uploads.length, sent: times(stage.sent).length };
}

// In the background, by the page's own clock: sent without anybody asking.
export async function background(given) {
  const stage = staged(given, { account: new Account() });
  const client = stage.client({ background: true });
  const turn = await client.play("colours");
  await client.report(turn, 1);
  const early = stage.uploads.length;
  while (!stage.uploads.length) await new Promise((resolve) => setTimeout(resolve, 10));
  const waited = Date.now() / 1000 - turn.takenAt;
  client.close();
  return { early, waited, at: turn.reportAt - turn.takenAt, uploads: stage.uploads.length };
}

export const exported = async () => Object.keys(await import("./croupier.js"));

// Calls at the same time, of one page and of another one.
export async function atOnce(given) {
  const stage = staged(given);
  const [one, other] = [stage.client(), stage.client()];
  const turns = await Promise.all([one, one, other].map((client) => client.play("colours")));
  return { ids: [...new Set(turns.map((turn) => turn.id))].length, ...(await standing(one)) };
}
