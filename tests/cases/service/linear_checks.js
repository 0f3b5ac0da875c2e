// What the tests ask of a linear bandit's device in a browser: the vectors' numbers, draws, refusals, and times.

import { Account, Client, Context, Kept, Moments, NoTurn, Rule, Turn, blocks, withConstant } from "./croupier.js";
import { staged } from "./app_checks.js";
import { hex } from "./bytes.js";
import { readMechanism } from "./mechanism.js";
import { Personal } from "./personal.js";
import { turnDelta } from "./privacy.js";
import { roundedVector } from "./randomizing.js";
import { isSame } from "./reading.js";

const FAR = { nan: NaN, inf: Infinity, "-inf": -Infinity }; // what JSON has not
const read = (value) => FAR[value] ?? value;
const numbers = (values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, read(value)]));

const tried = (make) => {
  try {
    return { found: make() };
  } catch (error) {
    return { refused: error.message, kind: error.reason ?? error.name };
  }
};

export const contextVectors = (cases) =>
  cases.map(({ features, clip, context }) => tried(() => new Context(features, { clip }).vector(numbers(context))));

export const momentVectors = ({ cases, precisions }) =>
  cases.map(({ values, x, reward, place, control }) =>
    tried(() => {
      const moments = new Moments(values);
      const vector = moments.of(x.map(read), read(reward), place, control);
      const reach = precisions.map((precision) => moments.reach(precision)).map(({ l2, l1 }) => [l2, l1]);
      const scaled = moments.unit(vector).map((number) => number * precisions[0]);
      const { diameter, taxicab, dimension } = moments;
      return { vector, scaled, reach, diameter, taxicab, dimension };
    }));

// Vectors that no user has: each of these changes to a user's own is to be refused.
export const strangers = (cases) =>
  cases.map(({ values, vector }) => tried(() => new Moments(values).unit(vector)).kind ?? null);

export const ruleVectors = (cases) =>
  cases.map(({ rule: text, users }) => {
    const rule = Rule.fromJSON(text);
    return users.map(({ x }) => {
      const [scores, lowest] = [rule.scores(x), rule.scores(x, false)];
      const choices = [rule.choose(x), lowest.indexOf(Math.max(...lowest))];
      return { estimates: rule.estimates(x), scores, lowest, choices };
    });
  });

export const personalVectors = (cases) =>
  cases.map(({ program, context, choice, reward, values }) => {
    const personal = new Personal(program);
    const [vectors, report] = [personal.vectors(context), personal.report(choice, reward, new Moments(values))];
    return { vectors, report, dimension: personal.dimension };
  });

export const personalRefusals = (cases) =>
  cases.map(({ program, rule, values, reward }) =>
    tried(() => {
      const personal = new Personal(program);
      const choice = personal.choose(Rule.fromJSON(JSON.stringify(rule)), { age: 30, visits: 2 });
      return personal.report(choice, read(reward), new Moments(values));
    }).kind ?? null);

export const ruleTexts = (texts) => texts.map((text) => tried(() => Rule.fromJSON(text)).kind ?? null);

export const vectorDeltas = (cases) =>
  Promise.all(cases.flatMap(({ mechanism, costs }) =>
    costs.map(([epsilon]) => turnDelta([readMechanism(mechanism)], epsilon))));

// So many roundings of a user's vector.
export function vectorRoundings({ mechanism, vector, times }) {
  const plan = readMechanism(mechanism);
  return Array.from({ length: times }, () => roundedVector(plan, vector));
}

export const featureMaps = ({ x }) => ({ with_constant: withConstant(x), blocks: blocks(x[1], 3) });

// How often each action was played, by all and by those of the control share.
export function plays({ rule: text, x, times }) {
  const rule = Rule.fromJSON(text);
  const found = {};
  for (let time = 0; time < times; time += 1) {
    const { action, control } = rule.play(x);
    const name = control ? `control ${action}` : String(action);
    found[name] = (found[name] ?? 0) + 1;
  }
  return found;
}

// A personalised turn of each of these people, [context, reward or null]: what each played, and all that was sent.
export async function personalTurns({ people, ...given }) {
  const found = [];
  for (const [at, [context, reward]] of people.entries()) {
    const stage = staged(given);
    stage.account = new Account(new Kept(`person ${at}`), { clock: () => stage.now });
    const client = stage.client();
    const turn = await client.play("colours", { context });
    const again = await client.play("colours"); // what was shown is shown again, whoever asks
    const copy = Turn.fromJSON(JSON.stringify(turn));
    if (reward !== null) await client.report(copy, reward);
    const kept = JSON.stringify(await stage.account.kept());
    stage.now = turn.reportAt;
    await client.sendDue();
    const { arm, armName, choice, bytes } = turn;
    const same = again.id === turn.id && isSame(copy.choice, choice) && kept.includes("choice");
    found.push({ arm, armName, choice, bytes, same, sent: stage.sent.map(([method, what]) => `${method} ${what}`),
      said: stage.said, upload: stage.uploads[0], id: hex(turn.report) });
  }
  return found;
}

// Contexts of types that no JSON has.
const ODD = [5, "age", [30], [["age", 30]], new Map([["age", 30]]), new Date(0), Symbol("age"), 30n, () => 30,
  ...[30n, Symbol("age"), [30], {}, Object.create(null), true, "x".repeat(9_000), "two\nlines", () => 30,
    { toString() { throw new Error("none"); } }].map((age) => ({ age, visits: 2 }))];

export const oddRefused = (given) => refusals(given, ODD);

// What is said of contexts that cannot be used, all that was sent, and what was charged.
export const personalRefused = ({ contexts, ...given }) =>
  refusals(given, contexts.map((context) => (context ? numbers(context) : undefined)));

async function refusals(given, contexts) {
  const found = [];
  for (const context of contexts) {
    const stage = staged(given);
    const client = stage.client();
    const refused = await client.play("colours", { context }).then(() => null, (error) => error);
    const { epsilon } = await client.account.left();
    found.push({ message: refused?.message ?? null, isNoTurn: refused instanceof NoTurn,
      sent: stage.sent.map(([method, what]) => `${method} ${what}`), left: epsilon });
  }
  return found;
}

// Milliseconds of a choice among so many actions: the median of many, after the first.
export function choosing({ rule: text, x, times }) {
  const rule = Rule.fromJSON(text);
  const took = Array.from({ length: times }, () => {
    const began = performance.now();
    for (let again = 0; again < 10; again += 1) rule.play(x);
    return (performance.now() - began) / 10;
  });
  return { first: took[0], median: took.slice(1).sort((a, b) => a - b)[times >> 1] };
}

// All that a client sends, by method and the last word of the address; a rule's is its hash.
function listening() {
  const sent = [];
  const fetch = (url, options = {}) => {
    const [kind, last] = new URL(url).pathname.split("/").slice(-2);
    sent.push(`${options.method ?? "GET"} ${kind === "rules" ? "rule" : last}`);
    return globalThis.fetch(url, options);
  };
  return { fetch, sent };
}

const GENEROUS = { epsilon: 100, epsilonPerPeriod: 100 };

function visitor({ analyzer, keys }) {
  const { fetch, sent } = listening();
  const account = new Account(undefined, { limits: GENEROUS });
  return { client: new Client(analyzer, { account, keys, fetch, background: false }), sent };
}

// People on real servers, each with a device of their own: what each chose and sent. The reward is that of the action.
export async function personalCrowd({ people, name, ...given }) {
  const found = [];
  const waiting = [...people.entries()];
  async function worker() {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [at, context] = next;
      const { client, sent } = visitor(given);
      const turn = await client.play(name, { context, patience: 60 });
      const reward = (at + turn.arm) % 2;
      await client.report(turn, reward);
      const due = await client.sendDue();
      found[at] = { choice: turn.choice, bytes: turn.bytes, sent, reward, kept: due };
    }
  }
  await Promise.all(Array.from({ length: 4 }, worker));
  return found;
}

// People whom a device cannot describe.
export async function wrongPeople({ people, name, ...given }) {
  return Promise.all(people.map(async (context) => {
    const { client, sent } = visitor(given);
    const own = context ? numbers(context) : undefined;
    return { refused: await client.play(name, { context: own }).catch((error) => error.message), sent };
  }));
}
