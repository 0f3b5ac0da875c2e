// The participant's page: what is sent, what nobody learns, what is not promised, and the bytes themselves.
import { counted, duration, element, facts, fetched, figures, number, percent, whole } from "./pages.js";

const main = document.getElementById("main");

const ADMITTED = {
  everybody: "Everybody who wants to.",
  tickets: "People to whom an issuer gave a ticket. The issuer must not be the analyzer. Issuer and front together can tell that you took part.",
  tokens: "People to whom an issuer gave a blind token. The issuer must not be the analyzer. Not even issuer and front together can tell by it that you took part.",
};

const card = (heading, ...points) =>
  element("div", { class: "card" }, element("h3", {}, heading), element("ul", {}, points.filter(Boolean).map((point) => element("li", {}, point))));

// What both servers together could tell by a report. The best guess between two values is right in one half of the
// cases, and the advantage comes on top.
function left(batch) {
  if (batch.residual_advantage >= 1) return "They would read your answer: your report alone has no noise.";
  const guess = `The best guess between the two most different answers would be right in ${percent((1 + batch.residual_advantage) / 2)} of cases.`;
  return batch.hides_nothing_alone ? `No ε holds for every report: some would show their value, or nearly. ${guess}` : `ε = ${number(batch.residual_epsilon)}. ${guess}`;
}

// What each trust means to a participant: what leaves the device, what hides it, what each server learns, and what is not promised.
const TRUSTS = {
  "two-servers": {
    leaves: "Your answer in two shares, one for each server. A share alone is a random number: it tells nothing.",
    hides: ["Your answer. Each server has one share, and sees only the sum of a whole batch, with noise.",
      "Each server adds a whole noise of its own. One honest server is enough, even if the other one and everybody else in your batch work against you.",
      "A batch may be you alone. Then the noise of both servers is what hides your answer."],
    analyzer: "The analyzer: its shares, and sums with noise of a whole batch at a time.",
    not: [(_, body) => `Protection if both servers work together: then they learn your answer${isPersonal(body) ? ", and what describes you" : ""}.`],
  },
  devices: {
    leaves: "Your answer with random noise, in two shares, one for each server. The noise is added on your device, before anything is sent.",
    hides: ["Your answer. Each server has one share, and sees only the sum of a whole batch, with everybody's noise."],
    analyzer: "The analyzer: its shares, and sums with noise of a whole batch at a time.",
    not: ["Protection if both servers work together, or if one of them breaks the rules.",
      (p) => `Protection if fewer than ${percent(p.honest_fraction)} of a batch add their noise.`],
  },
  shuffler: {
    leaves: "Your answer with random noise, split into sealed messages. The noise is added on your device, before anything is sent.",
    hides: ["Your answer. The front cannot open it, and the analyzer sees it only with noise, mixed with the answers of everybody else in the batch.",
      "Who sent what. Messages lose their senders and their order before they are opened.",
      (_, body) => (body.front_noise
        ? "The front adds noise of its own, enough to hide you even if everybody else in your batch works for the analyzer."
        : "The front adds no noise of its own: if everybody else in your batch worked for the analyzer, your answer would show."),
      "This holds while the two servers do not work together."],
    analyzer: "The analyzer: sums with noise, of a whole batch at a time.",
    not: ["Protection if both servers work together, or if the front breaks the rules, such as by replacing other people's messages.",
      (p) => `Protection against the front if fewer than ${percent(p.honest_fraction)} of a batch add their noise.`],
  },
  nobody: {
    leaves: "Your answer with so much random noise that it is private by itself, in one sealed message. The noise is added on your device.",
    hides: ["Your answer: no server, and not both together, can tell it from your report."],
    analyzer: "The analyzer: reports with noise, in no order.",
    not: [],
  },
};
const PROVED = {
  prio3: "A proof that your answer is one of those allowed. The servers check it together, and learn nothing else from it.",
  none: "No proof that your answer is one of those allowed: people who send nonsense may spoil the result.",
};
// Where devices choose by themselves nobody else knows of what, or by what.
const CHOSEN = {
  leaves: (features) => `One vector in two shares, one for each server. It is made of what describes you (${features.join(", ") || "nothing here"}), which version your device chose, and your answer. A share alone is random numbers: it tells nothing.`,
  proved: "A proof that every number of it is in its range. The servers check it together, and learn nothing else from it.",
  hides: (features) => `What describes you: ${features.join(", ") || "nothing here"}. Your device chooses by itself, by a rule that is public, and nobody learns which version it chose.`,
};
const isPersonal = (body) => body.features !== null;
// What the front knows of who was shown what.
const versions = (body, words) => (body.arms.length && !isPersonal(body) ? words : "");
const said = (points, body) => points.map((point) => (typeof point === "function" ? point(body.privacy, body) : point));

// What the noise of a report alone would leave.
const joined = (epsilon) => (epsilon === Infinity ? ["not hidden", "your report alone has no noise, or too little to hide every answer"] : [`ε = ${number(epsilon)}`, "what the noise of your report alone would leave"]);

function force(body) {
  const p = body.privacy;
  const alone = body.reports.map((one) => (one.residual_epsilon === null ? Infinity : one.residual_epsilon));
  return figures([
    ["In force, one report", `ε = ${number(p.epsilon)}`, p.delta ? `and δ = ${number(p.delta)}` : "without exception: δ = 0"],
    ["What that means", `${number(Math.exp(p.epsilon))} times`, `whatever others see, it is at most so many times as likely with your answer as with another${p.delta ? ", but for a chance of δ" : ""}`],
    body.trust === "two-servers"
      ? ["You are hidden by", "either server's noise", "whoever else takes part"]
      : body.trust === "nobody"
        ? ["You are hidden by", "your own noise", "whoever else takes part"]
        : ["You are hidden among", counted(body.smallest, "person", "people"), "or more; a smaller batch is never opened"],
    ...(alone.length ? [["If both servers joined", ...joined(Math.max(...alone))]] : []),
  ]);
}

function cards(body) {
  const p = body.privacy, budget = p.budget, trust = TRUSTS[body.trust];
  const [first, last] = body.report_at;
  return element("div", { class: "cards" },
    card("What leaves your device", isPersonal(body) ? CHOSEN.leaves(body.features) : trust.leaves,
      ...(body.metrics.length ? [`Your answer has ${counted(body.metrics.length, "number")}: ${body.metrics.map((one) => `${one.name} (ε = ${number(one.epsilon)})`).join(", ")}. All of them together cost the ε that is in force.`] : []),
      isPersonal(body) && body.validity === "prio3" ? CHOSEN.proved : PROVED[body.validity],
      `At a moment that your device draws by chance, ${last ? `${number(first)} to ${number(last)} seconds after your turn` : "right after your turn"}, whatever you answered: the time tells nothing.`,
      "Always the same number of bytes, whatever you answered.", "No name and no account is in it.",
      `Your device counts what you spend, and stops: with the usual limits at ε = ${number(budget.epsilon)} in ${duration(budget.period)}.`),
    card("What nobody learns", isPersonal(body) ? CHOSEN.hides(body.features) : "", ...said(trust.hides, body)),
    card("What each server learns", `The front: that you reported${versions(body, ", when, and which version you were shown") || ", and when"}. It cannot read your answer.`,
      trust.analyzer),
    card("Who takes part", ADMITTED[body.admission?.kind] ?? ADMITTED.everybody,
      "A later revision cannot change any of this: your device would refuse it."),
    card("What is not promised", ...said(trust.not, body), `That nobody knows that you took part${versions(body, ", or which version you were shown")}: the front does.`,
      "A hidden network address: servers see it while a device is connected, but do not write it down.",
      `Anything beyond ${p.unit}: someone with two of those counts twice.`));
}

const shared = (body) => body.trust === "two-servers" || body.trust === "devices";

// An answer is one value, a user's vector, or a number for each metric.
function answered(value) {
  if (Array.isArray(value)) return "one user's vector";
  const said = value !== null && typeof value === "object" ? Object.entries(value).map(([name, one]) => `${name}: ${one}`).join(", ") : value;
  return `an answer of “${said}”`;
}

function bytes(one, body) {
  return element("div", {},
    one.arm === null ? "" : element("h3", {}, `For “${body.arms[one.arm]}”`),
    facts([
      ["One upload", `exactly ${counted(one.upload_bytes, "byte")}, whatever you answered`],
      ...one.batches.flatMap((batch) => [
        shared(body)
          ? ["Its shares", `${counted(batch.front_bytes, "byte")} for the front, and ${counted(batch.message_bytes, "byte")} sealed to the analyzer${body.validity === "prio3" ? ", with the proof" : ""}`]
          : [`To batch ${whole(batch.batch)}`, `${counted(batch.messages, "sealed message")} of ${counted(batch.message_bytes, "byte")}, among those of ${counted(batch.users, "person", "people")}`],
        [one.batches.length > 1 ? "From these alone, if both servers joined" : "If both servers joined", left(batch)],
      ]),
    ]),
    one.batches.map((batch) => batch.sample.map((sample) => element("details", { class: "messages" },
      element("summary", {}, `Before sealing: ${answered(sample.value)}${one.batches.length > 1 ? ` to batch ${whole(batch.batch)}` : ""}, ${shared(body) ? "as the front's share and the analyzer's" : "with noise"}`),
      element("pre", { tabindex: 0 }, sample.messages.join("\n"))))),
    element("details", { class: "upload" }, element("summary", {}, "As it leaves a device: one whole upload, sealed"), element("pre", { tabindex: 0 }, one.sample_upload)));
}

function page(body) {
  const [first, ...others] = body.reports;
  document.title = `What you send – ${body.title}`;
  document.getElementById("back").setAttribute("href", `/#${body.experiment}`);
  main.replaceChildren(
    element("h1", {}, "What you send, and what nobody learns"),
    element("p", { class: "soft" }, body.title),
    force(body), cards(body),
    element("h2", {}, "The exact bytes"),
    element("p", { class: "soft" }, "A sample, in hexadecimal, made just now like a real report but with a token that no front takes."),
    first ? bytes(first, body) : element("p", {}, "There is none: no batch is open right now."),
    others.length ? element("details", {}, element("summary", {}, `The same for ${counted(others.length, "other open batch", "other open batches")}`), others.map((one) => bytes(one, body))) : "");
}

async function start() {
  const name = decodeURIComponent(location.pathname.split("/").pop());
  const { experiments } = await fetched("/experiments");
  if (experiments.some((one) => one.name === name)) page(await fetched(`/experiments/${name}/participation`));
  else main.replaceChildren(element("p", {}, `There is no experiment called “${name}”.`));
}

start().catch((error) => {
  main.replaceChildren(element("p", { class: "trouble", role: "alert" }, `The analyzer does not answer: ${error.message}`));
});
