// A participant's page: shows an arm, asks what came of it, reports that, and says what was sent and what it cost.

import { Account, Client, Kept, Problem, Refused } from "../croupier.js";
import { ANALYZER, EXPERIMENT, TRUST } from "./settings.js";

const at = (id) => document.getElementById(id);
const PATIENCE = 20; // seconds

// What a person can do about it.
const PROBLEMS = {
  "nothing-open": "There is no turn to take right now. Try again in a moment.",
  "experiment-finished": "The experiment has ended. Thank you.",
  "batch-closed": "Others were faster: the group was full, and your answer was not used. What it cost stays spent.",
  "no-answer": "A server does not answer. If an answer was on its way, it is kept and sent when you come back.",
};
const REFUSALS = {
  "budget-spent": "You have given all that this device allows for now, so it takes no further turn.",
  "beyond-limits": "This experiment asks for more than this device gives, so it takes no part.",
  "broken-promise": "This experiment promises something else than it did before, so this device takes no part.",
  "bad-signature": "This is not signed by the two servers that this device trusts, so it takes no part.",
};

const ADMITTED = {
  everybody: "Everybody may take part. Both servers signed this.",
  tickets: "Who takes part needs a ticket. Both servers signed this.",
  tokens: "Who takes part needs a blind token. Both servers signed this.",
};

function say(text) {
  at("status").textContent = text;
}

function explain(error) {
  if (error instanceof RangeError) return `${error.message}.`;
  if (error instanceof Problem) return PROBLEMS[error.token] ?? `The server refused: ${error.message}.`;
  if (error instanceof Refused) return `${REFUSALS[error.reason] ?? "This device refuses."} (${error.message})`;
  return `Something went wrong: ${error.message}`;
}

// Three digits, and powers of ten as people write them.
function few(number) {
  const [digits, power] = Number(number.toPrecision(3)).toString().split("e");
  const raised = (power ?? "").replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)] ?? "");
  return power ? `${digits === "1" ? "" : `${digits}\u00a0·\u00a0`}10${raised}` : digits;
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// The fields for what came of a turn, and how its value is read from them.
function question({ universe, values }) {
  if (values?.binary) {
    const answers = [["Yes, it worked", values.high], ["No", values.low]];
    const button = ([text, value]) => element("button", { textContent: text, name: "value", value });
    return { fields: answers.map(button), read: Number };
  }
  if (values) {
    const limits = { type: "number", name: "value", required: true, step: "any", min: values.low, max: values.high };
    const label = element("label", {}, `A number from ${values.low} to ${values.high}`, element("input", limits));
    return { fields: [label, element("button", {}, "Send")], read: Number };
  }
  const listed = universe.kind === "items";
  const options = listed ? universe.names.map((item) => element("option", { value: item }, item)) : [];
  const field = element(listed ? "select" : "input", { name: "value", required: true }, ...options);
  const read = universe.kind === "numbers" ? Number : String;
  return { fields: [element("label", {}, "Which is yours?", field), element("button", {}, "Send")], read };
}

async function showSent(turn, { bytes, epsilon, delta }) {
  const slots = turn.offer.batches.reduce((sum, batch) => sum + batch.plan.slots, 0);
  const users = Math.min(...turn.offer.batches.map((batch) => batch.plan.users));
  at("sent").textContent =
    `${bytes.length.toLocaleString("en")} bytes, as many as everybody sends, whatever the answer: ${slots} sealed ` +
    `messages in which yours is mixed with noise. They are shuffled with those of ${users - 1} others, and only ` +
    `sums are read. It cost ε = ${few(epsilon)}, δ = ${few(delta)}.`;
  await showLeft();
  at("done").hidden = false;
}

async function showLeft() {
  const { epsilon, renews } = await client.account.left();
  const more = renews === null ? "" : `, and more from ${new Date(1000 * renews).toLocaleString("en")}`;
  at("left").textContent =
    `Of your ε = ${few(client.account.limits.epsilonPerPeriod)} you have ${few(epsilon)} left${more}.`;
}

async function take() {
  at("done").hidden = true;
  say("Waiting for a turn …");
  const turn = await client.play(EXPERIMENT, { patience: PATIENCE });
  const { fields, read } = question(turn.offer.batches[0].plan);
  at("shown").replaceChildren(turn.armName ? "You see: " : "Your turn.", element("strong", {}, turn.armName));
  at("answer").replaceChildren(...fields);
  at("answer").onsubmit = (event) => {
    event.preventDefault();
    const value = read(new FormData(event.target, event.submitter).get("value"));
    act(() => send(turn, value));
  };
  at("play").hidden = true;
  at("turn").hidden = false;
  say("");
}

async function send(turn, value) {
  say("Sealing and sending …");
  await showSent(turn, await client.report(turn, value));
  say("");
  again();
}

function again() {
  at("turn").hidden = true;
  if (!at("play").onclick) return; // nothing was joined
  Object.assign(at("play"), { hidden: false, disabled: false, textContent: "Take another turn" });
}

// One thing at a time, and whatever goes wrong is said.
async function act(step) {
  for (const button of document.querySelectorAll("button")) button.disabled = true;
  try {
    await step();
  } catch (error) {
    say(explain(error));
    if (!(error instanceof RangeError)) again();
  }
  for (const button of document.querySelectorAll("button")) button.disabled = false;
}

let client;

async function begin() {
  if (!TRUST.analyzer || !TRUST.front) {
    at("promise").textContent = "This page trusts nobody yet: the signing keys of both servers are due in settings.js.";
    return;
  }
  client = new Client(ANALYZER, { account: new Account(new Kept()), trust: TRUST });
  const { configuration } = await client.join(EXPERIMENT);
  const { privacy, recipe, admission } = configuration;
  at("title").textContent = configuration.title;
  at("promise").textContent =
    `A turn is private with ε = ${few(privacy.epsilon)}, δ = ${few(privacy.delta)}, for ${privacy.unit}, in groups ` +
    `of ${recipe.smallest} people or more, if ${few(100 * privacy.honest_fraction)} % of them are honest. ` +
    (recipe.front_noise ? "The first server adds as much noise again, in case they are not. " : "") +
    "It holds while the two servers do not work together. " +
    ADMITTED[admission.kind];
  at("play").hidden = false;
  at("play").onclick = () => act(take);
  await client.resume();
}

act(begin);
