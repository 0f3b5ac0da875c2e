// A participant's page: shows an arm, asks what came of it, records that, and says what is sent, when, and what it
// cost.

import { Account, Client, Kept, NoTurn, Shown } from "../croupier.js";
import { ANALYZER, EXPERIMENT, KEYS } from "./settings.js";

const at = (id) => document.getElementById(id);
const PATIENCE = 20; // seconds

// What a person can do about it.
const REASONS = {
  "nothing-open": "There is no turn to take right now. Try again in a moment.",
  "experiment-finished": "The experiment has ended. Thank you.",
  "no-answer": "A server does not answer.",
  "budget-spent": "You have given all that this device allows for now, so it takes no further turn.",
  "beyond-limits": "This experiment asks for more than this device gives, so it takes no part.",
  "broken-promise": "This experiment promises something else than it did before, so this device takes no part.",
  "bad-signature": "This is not signed by the two servers that this device trusts, so it takes no part.",
};

const several = "among many others, and only sums are read. It holds while the two servers do not work together";
const TRUSTED = {
  "two-servers": () =>
    "Every answer is split between two servers, and each adds noise to the sums: it holds as long as one of the two " +
    "is honest.",
  devices: ({ privacy }) =>
    `Every answer is split between two servers, with noise of this device ${several}, and ` +
    `${few(100 * privacy.honest_fraction)} % of the others are honest.`,
  shuffler: ({ privacy, recipe }) =>
    `Every answer is mixed with noise ${several}, and ${few(100 * privacy.honest_fraction)} % of the others, ` +
    `${recipe.smallest} people or more, are honest. ` +
    (recipe.front_noise ? "The first server adds as much noise again, in case they are not." : ""),
  nobody: () => "Every answer is hidden in noise on this device, whoever reads it.",
};

// Where no proof is possible nothing is said of it: other trusts have their own words for what others may do.
function proved({ trust, validity }) {
  if (trust !== "two-servers") return "";
  return validity.kind === "prio3"
    ? "Every report proves that its answer is a possible one, and neither server learns which. "
    : "Nothing proves that an answer is a possible one. ";
}

const ADMITTED = {
  everybody: "Everybody may take part. Both servers signed this.",
  tickets: "Who takes part needs a ticket. Both servers signed this.",
  tokens: "Who takes part needs a blind token. Both servers signed this.",
};

function say(text) {
  at("status").textContent = text;
}

const said = (reason) => (Object.hasOwn(REASONS, reason) ? REASONS[reason] : "There is no turn.");

function explain(error) {
  if (error instanceof RangeError) return `${error.message}.`;
  if (error instanceof NoTurn) return `${said(error.reason)} (${error.message})`;
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

// A field for a number of this range; of a binary one only the ends are taken.
function numberField(name, words, { low: min, high: max, binary, clip }) {
  const limits = clip ? {} : { min, max };
  const step = binary ? max - min : "any";
  return element("label", {}, words, element("input", { type: "number", name, required: true, step, ...limits }));
}

// The fields for what came of a turn, and how its value is read from the form that they are in.
function question({ universe, values, names, parts }) {
  const send = element("button", {}, "Send");
  const numberIn = (form) => Number(form.get("value"));
  if (parts) {
    const words = (name, { low, high }) => `${name}: a number from ${low} to ${high}`;
    const fields = parts.map((part, at) => numberField(names[at], words(names[at], part.values), part.values));
    const read = (form) => Object.fromEntries(names.map((name) => [name, Number(form.get(name))]));
    return { fields: [...fields, send], read };
  }
  if (values?.binary) {
    const answers = [["Yes, it worked", values.high], ["No", values.low]];
    const button = ([text, value]) => element("button", { textContent: text, name: "value", value });
    return { fields: answers.map(button), read: numberIn };
  }
  if (values) {
    const field = numberField("value", `A number from ${values.low} to ${values.high}`, values);
    return { fields: [field, send], read: numberIn };
  }
  const listed = universe.kind === "items";
  const options = listed ? universe.names.map((item) => element("option", { value: item }, item)) : [];
  const field = element(listed ? "select" : "input", { name: "value", required: true }, ...options);
  const read = universe.kind === "numbers" ? numberIn : (form) => String(form.get("value"));
  return { fields: [element("label", {}, "Which is yours?", field), send], read };
}

// How a report hides an answer.
const HIDDEN = {
  "two-servers": ({ configuration: { validity } }) =>
    "two shares, one for each server, each of which alone is a random number" +
    (validity.kind === "prio3" ? ", with a proof that your answer is a possible one" : ""),
  devices: () => "two shares of your answer with noise, one for each server",
  shuffler({ offer }) {
    const slots = offer.batches.reduce((sum, { plan }) => sum + plan.slots, 0);
    return `${slots} sealed messages in which yours is mixed with noise`;
  },
};

const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en");

async function showKept(turn) {
  const { trust, privacy } = turn.configuration;
  at("sent").textContent =
    `Your answer is on this device alone. It is sent at ${clock(turn.reportAt)}, a moment that was drawn with your ` +
    "turn, whatever you answer; until then you may answer again. It will be " +
    `${turn.bytes.toLocaleString("en")} bytes, as many as everybody sends: ${HIDDEN[trust](turn)}. ` +
    `It costs ε = ${few(privacy.epsilon)}, δ = ${few(privacy.delta)}.`;
  await showLeft();
  at("done").hidden = false;
}

// Looks now and then whether the client has sent it; the page itself sends nothing.
async function follow(turn) {
  if (await client.turn(turn.id)) return void setTimeout(() => follow(turn), 500);
  at("turn").hidden = true;
  at("done").hidden = false;
  at("sent").textContent = `Sent: ${turn.bytes.toLocaleString("en")} bytes, as many as everybody sends. Thank you.`;
  await showLeft();
}

async function showLeft() {
  const { epsilon, renews } = await client.account.left();
  const more = renews === null ? "" : `, and more from ${new Date(1000 * renews).toLocaleString("en")}`;
  at("left").textContent =
    `Of your ε = ${few(client.account.limits.epsilonPerPeriod)} you have ${few(epsilon)} left${more}.`;
}

async function take() {
  say("Waiting for a turn …");
  const turn = await client.play(EXPERIMENT, { patience: PATIENCE });
  say("");
  at("play").hidden = true;
  at("shown").replaceChildren(turn.armName ? "You see: " : "Your turn.", element("strong", {}, turn.armName));
  at("turn").hidden = false;
  if (turn instanceof Shown) return say("You have seen it before, and your answer was sent.");
  const { fields, read } = question(turn.offer.batches[0].plan);
  at("answer").replaceChildren(...fields);
  at("answer").onsubmit = (event) => {
    event.preventDefault();
    const value = read(new FormData(event.target, event.submitter));
    act(() => keep(turn, value));
  };
  follow(turn);
}

async function keep(turn, value) {
  say("");
  if (await client.report(turn, value)) return showKept(turn);
  say("It was too late for an answer: that there was none by then is what was sent.");
}

// One thing at a time, and whatever goes wrong is said.
async function act(step) {
  for (const button of document.querySelectorAll("button")) button.disabled = true;
  try {
    await step();
  } catch (error) {
    say(explain(error));
  }
  for (const button of document.querySelectorAll("button")) button.disabled = false;
}

let client;

async function begin() {
  if (!KEYS.analyzer || !KEYS.front) {
    at("promise").textContent = "This page trusts nobody yet: the signing keys of both servers are due in settings.js.";
    return;
  }
  client = new Client(ANALYZER, { account: new Account(new Kept()), keys: KEYS });
  const { configuration } = await client.join(EXPERIMENT);
  const { privacy, trust, admission } = configuration;
  at("title").textContent = configuration.title;
  at("promise").textContent =
    `A turn is private with ε = ${few(privacy.epsilon)}, δ = ${few(privacy.delta)}, for ${privacy.unit}. ` +
    `${TRUSTED[trust](configuration)} ${proved(configuration)}${ADMITTED[admission.kind]}`;
  at("play").hidden = false;
  at("play").onclick = () => act(take);
  if ((await client.turns()).some((turn) => turn.experiment === EXPERIMENT)) await take();
}

act(begin);
