"use strict";

const main = document.getElementById("main");
function number(value, digits = 4) {
  if (value === null || value === undefined) return "infinite";
  if (value !== 0 && Math.abs(value) < 1e-4) return Number(value).toExponential(1);
  return Number(value).toLocaleString("en", { maximumSignificantDigits: digits });
}
const whole = (value) => Number(value).toLocaleString("en");

// Text only ever enters the page as text.
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}

function table(headings, rows, numbers = []) {
  const kind = (index) => (numbers.includes(index) ? { class: "number" } : {});
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ...headings.map((text, i) => element("th", kind(i), text)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell, i) => element("td", kind(i), cell)))))));
}

function figures(pairs) {
  return element("div", { class: "figures" }, ...pairs.map(([name, value]) => element("div", {}, element("b", {}, value), name)));
}

function interval(arm) {
  const percent = (value) => `${100 * Math.min(1, Math.max(0, value))}%`;
  const bar = element("i", { style: `left:${percent(arm.lower)};width:calc(${percent(arm.upper)} - ${percent(arm.lower)})` });
  const label = `${number(arm.lower, 3)} to ${number(arm.upper, 3)}`;
  return element("div", { class: "interval", role: "img", "aria-label": label, title: label }, bar, element("b", { style: `left:${percent(arm.mean)}` }));
}

function program(state) {
  const shown = state.program;
  if (state.kind === "bandit") {
    return table(["arm", "users", "mean", "95 % at all times, 0 to 1", ""], shown.arms.map((arm) => [
      element("span", arm.arm === shown.best_arm ? { class: "best" } : {}, state.arms[arm.arm]),
      whole(arm.users), arm.batches ? number(arm.mean, 3) : "–", arm.batches ? interval(arm) : "",
      arm.active ? (arm.paused ? "paused" : "in play") : "out",
    ]), [1, 2]);
  }
  if (state.kind === "counter") {
    const points = shown.points.slice(-20).reverse();
    return element("div", {}, figures([["sum so far", number(shown.estimate, 6)], ["off by at most (95 %)", number(shown.bound)], ["levels", whole(shown.shufflers)]]),
      table(["after users", "sum"], points.map(([users, value]) => [whole(users), number(value, 6)]), [0, 1]));
  }
  return element("div", {}, figures([["items", whole(shown.size)], ["off by at most (95 %)", number(shown.radius)]]),
    table(["item", "count"], shown.top.map((one) => [one.item, number(one.count, 5)]), [1]));
}

function opened(state) {
  if (!state.open.length) return element("p", { class: "soft" }, state.finished ? "None: the experiment has ended." : "None right now.");
  return table(["arm", "batch", "reports", ""], state.open.flatMap((offer) => offer.batches.map((batch) => [
    offer.arm === null ? "–" : state.arms[offer.arm], whole(batch.batch), `${whole(batch.received)} of ${whole(batch.users)}`,
    element("progress", { max: batch.users, value: batch.received, "aria-label": `batch ${batch.batch}` }),
  ])), [1]);
}

function log(state) {
  const what = (event) => [event.reason, event.operation, event.name, event.damaged ? `${event.damaged} damaged messages` : ""].filter(Boolean).join(" ");
  return table(["#", "when", "event", "arm", "users", "mean", ""], state.events.slice().reverse().map((event) => [
    whole(event.number), event.at.replace("T", " ").slice(0, 19), event.event,
    event.arm === null || event.arm === undefined ? "" : state.arms[event.arm], event.users ? whole(event.users) : "",
    event.mean === undefined ? "" : number(event.mean, 3), what(event),
  ]), [0, 4, 5]);
}

function privacy(state) {
  const p = state.privacy;
  return element("p", {}, `Each turn is (ε, δ) = (${number(p.epsilon)}, ${number(p.delta, 3)})-differentially private by ${p.protocol}, ` +
    `for ${p.unit}, counted over ${whole(p.period)} seconds, if at least ${number(100 * p.honest_fraction)} % of every batch add their noise; no batch has fewer than ${whole(state.smallest)} users. `,
    element("a", { href: `/participate/${state.experiment}` }, "What a participant sends"));
}

function dashboard(state) {
  document.title = `${state.title} – croupier`;
  main.replaceChildren(
    element("h2", {}, state.title, " ", element("span", { class: "soft", id: "status" }, state.finished ? "finished" : "running")),
    state.trouble ? element("p", { class: "trouble" }, state.trouble) : "",
    figures([["reports accepted", whole(state.accepted)], ["turns given out", whole(state.assigned)],
      ["never reported, or too late", whole(Math.max(0, state.assigned - state.accepted))], ["events", whole(state.records)]]),
    program(state),
    element("h2", {}, "Batches filling"), opened(state),
    element("h2", {}, "Privacy"), privacy(state),
    element("h2", {}, "What happened"), log(state),
    element("p", {}, element("a", { href: `/experiments/${state.experiment}/transcript` }, "Download the transcript"),
      " and check it with ", element("code", {}, "croupier verify")));
}

async function fetched(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function startDashboard() {
  const { experiments } = await fetched("/experiments");
  const wanted = decodeURIComponent(location.hash.slice(1)) || (experiments[0] && experiments[0].name);
  document.getElementById("experiments").replaceChildren(...experiments.map((one) =>
    element("a", { href: `#${one.name}`, ...(one.name === wanted ? { "aria-current": "page" } : {}) }, one.name)));
  if (!wanted) { main.replaceChildren(element("p", {}, "There is no experiment.")); return null; }
  dashboard(await fetched(`/experiments/${wanted}/state`));
  const source = new EventSource(`/experiments/${wanted}/live`);
  source.onmessage = (message) => dashboard(JSON.parse(message.data));
  return source;
}

function report(one, body) {
  return element("section", {},
    element("p", {}, one.arm === null ? "" : `For “${body.arms[one.arm]}”: `, `every upload is exactly ${whole(one.upload_bytes)} bytes long, whatever happened.`),
    ...one.batches.map((batch) => element("div", {},
      element("p", {}, `It adds ${whole(batch.messages)} sealed messages of ${whole(batch.message_bytes)} bytes to a batch of ${whole(batch.users)} people. ` +
        (batch.hides_nothing_alone
          ? `If both servers worked together against you, this report by itself would have no limit on what it tells: it is told from another with an advantage of ${number(batch.residual_advantage, 3)} (1 means: always).`
          : `If both servers worked together against you, you would still have ε = ${number(batch.residual_epsilon, 3)}, the noise of your own report.`)),
      ...batch.sample.map((sample) => element("details", {},
        element("summary", {}, `The messages of one report of ${sample.value}, before they are sealed`), element("pre", {}, sample.messages.join("\n")))))),
    element("details", {}, element("summary", {}, "One whole upload, sealed, as it leaves a device"), element("pre", {}, one.sample_upload)));
}

async function startParticipate() {
  const name = location.pathname.split("/").pop();
  const body = await fetched(`/experiments/${name}/participation`);
  const p = body.privacy;
  main.replaceChildren(
    element("h2", {}, body.title),
    element("h2", {}, "What is sent"),
    element("p", {}, "Your device adds random noise to what happened before anything leaves it, splits the result into messages, seals each one so that only the analyzer can open it, and seals the bundle again for the shuffler."),
    element("h2", {}, "What nobody learns"),
    element("p", {}, "The shuffler sees that you reported, and when, never what. The analyzer sees mixed messages of a whole batch and can only add them up: it never learns which are yours. " +
      `The sum is noisy: whoever sees it can tell what you said from what you could have said by a factor of at most e^ε with ε = ${number(p.epsilon)}, except with probability δ = ${number(p.delta, 3)}.`),
    element("p", {}, `This holds for ${p.unit}, over ${whole(p.period)} seconds; then your own ledger, which is on your device and refuses what exceeds your budget, begins anew. No batch has fewer than ${whole(body.smallest)} people.`),
    element("h2", {}, "What is not promised"),
    element("p", {}, `Both servers working together, or a server that does not keep to the rules, such as one that fills a batch with people of its own. Also if fewer than ${number(100 * p.honest_fraction)} % of a batch add their noise. What is left then is said below.`),
    element("h2", {}, "The exact bytes"), ...body.reports.map((one) => report(one, body)));
}

let source = null;
async function start() {
  try {
    if (source) source.close();
    source = document.body.dataset.page === "dashboard" ? await startDashboard() : (await startParticipate(), null);
  } catch (error) {
    main.replaceChildren(element("p", { class: "trouble" }, `The analyzer does not answer (${error.message}).`));
  }
}
window.addEventListener("hashchange", start);
start();
