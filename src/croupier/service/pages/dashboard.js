// The dashboard: one experiment's state, drawn again whenever the analyzer sends it anew.
import { clock, counted, duration, element, facts, fetched, figures, minus, number, percent, table, whole } from "./pages.js";
import { bar, interval, sums } from "./pictures.js";

const RETRY = 1500;
const SHORT_LOG = 12;
const main = document.getElementById("main");
let shown = null;
let wholeLog = false;

const quoted = (state, arm) => (arm === null || arm === undefined ? "" : `“${state.arms[arm]}”`);

// Rewards are on the scale from 0 to 1 inside, and people see their own.
const scaled = (state, value) => inUnits(state, state.values.low + value * (state.values.high - state.values.low));

// All rewards with as many decimals, so that they can be compared at a glance: a thousandth of the scale.
function inUnits(state, value) {
  const decimals = Math.max(0, 3 - Math.round(Math.log10(state.values.high - state.values.low)));
  return minus(value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
}

function reports(state) {
  const { planned } = state.program;
  const missing = Math.max(0, state.assigned - state.accepted);
  return figures([
    ["Reports accepted", `${whole(state.accepted)} of ${whole(planned)}`,
      element("progress", { max: planned, value: Math.min(planned, state.accepted), "aria-label": "reports accepted" }), `in full batches: ${whole(state.reports)}${state.finished && state.accepted < planned ? "; it ended there" : ""}. Others are told in steps, so that no single one shows`],
    ["Turns without a report", whole(missing), "still out, never reported or too late; they do not count"],
    ["Privacy of one turn", `ε = ${number(state.privacy.epsilon)}`, `δ = ${number(state.privacy.delta)}`],
  ]);
}

function standing(state, arm) {
  if (arm.out) {
    return element("span", {}, `${arm.out.retired ? "retired" : "out"} after ${counted(arm.out.reports, "report")} in all, `, clock(arm.out.at));
  }
  if (!arm.active) return "out";
  return arm.paused ? "paused" : arm.batches && arm.arm === state.program.best_arm
    ? element("span", { class: "best" }, state.finished ? "★ best" : "★ best so far") : "in play";
}

function arms(state) {
  const value = (share) => scaled(state, share);
  const { low, high } = state.values;
  const rows = state.program.arms.map((arm) => {
    const range = `${value(arm.lower)} to ${value(arm.upper)}`;
    const said = `${state.arms[arm.arm]}: ${value(arm.mean)}, interval ${range}`;
    return {
      kind: arm.active ? "" : "gone",
      cells: [
        element("b", {}, state.arms[arm.arm]), standing(state, arm), whole(arm.users), arm.batches ? value(arm.mean) : "–",
        arm.batches ? element("div", {}, interval(arm, said), element("small", { class: "soft" }, range)) : element("small", { class: "soft" }, "no full batch yet"),
      ],
    };
  });
  return [
    table("Arms", [{ text: "Arm" }, { text: "Standing", kind: "standing" }, { text: "Reports", kind: "number", short: "reports" }, { text: "Mean", kind: "number", short: "mean" },
      { text: `95 % interval, on the scale from ${number(low)} to ${number(high)}`, kind: "wide" }], rows),
    element("p", { class: "soft" }, "All intervals hold together and at all times with a chance of 95 %, so looking often costs nothing."
      + (state.program.arms.some((arm) => arm.mean < 0 || arm.mean > 1) ? " A mean is a sum with noise over its reports, so noise can carry it beyond the scale; the true mean, and the interval, stay on it." : "")),
  ];
}

function counter(state) {
  const { points, estimate, bound, planned, shufflers, left_out: missing } = state.program;
  if (!points.length) return [element("p", { class: "soft" }, "No sum yet: the first batch is filling.")];
  return [
    element("p", { class: "result" }, "The sum so far is ", element("b", {}, bound > 10 ? whole(estimate) : number(estimate, 4)), `, off by at most ${number(bound)} (with a chance of 95 %, at all times together).`),
    missing ? element("p", {}, `Nothing is known of ${counted(missing, "person", "people")}: their batch was refused and left out. They count as the middle, and the bound allows for it.`) : "",
    sums(points, planned, main.clientWidth),
    element("p", { class: "soft" }, `Every report is in ${counted(shufflers, "batch", "batches")} at once, one a level of the tree. The band is the bound.`),
  ];
}

function histogram(state) {
  const { top, radius, size, rounds, users } = state.program;
  if (!top.length) return [element("p", { class: "soft" }, "No counts yet: they are known once the first round is full.")];
  const most = Math.max(...top.map((one) => one.count)) + radius;
  return [
    element("p", { class: "result" }, `Counts among ${counted(users, "person", "people")}, each off by at most ${number(radius)} (with a chance of 95 %, all items${rounds > 1 ? " and rounds" : ""} together).`),
    table("Counts", [{ text: "Item" }, { text: "People", kind: "number" }, { text: `Count, and how far off it may be; the scale ends at ${whole(most)}`, kind: "wide" }],
      top.map((one) => ({ cells: [element("b", {}, one.item), whole(one.count), bar(one.count, radius, most, `${one.item}: ${whole(one.count)}, off by at most ${whole(radius)}`)] }))),
    size > top.length ? element("p", { class: "soft" }, `The ${top.length} largest of ${whole(size)} items.`) : "",
  ];
}

// How a program is shown follows from what it shows of itself, whatever kind it is of.
const SHOWN = { arms: ["Arms", arms], points: ["The sum", counter], top: ["Counts", histogram] };
const other = (state) => facts(Object.entries(state.program).map(([key, value]) => [key, JSON.stringify(value)]));

function filling(state) {
  if (!state.open.length) return [element("p", { class: "soft" }, state.finished ? "None: the experiment has ended." : "None right now.")];
  const rows = state.open.flatMap((offer) => offer.batches.map((batch) => ({
    cells: [
      element("span", {}, element("b", {}, offer.arm === null ? `batch ${whole(batch.batch)}` : state.arms[offer.arm]), offer.arm === null ? "" : element("span", { class: "soft" }, ` batch ${whole(batch.batch)}`)),
      `${whole(batch.received)} of ${whole(batch.users)}`,
      element("progress", { max: batch.users, value: batch.received, "aria-label": `batch ${batch.batch}` }),
    ],
  })));
  return [table("Batches filling", [{ text: "Batch" }, { text: "Reports", kind: "number" }, { text: "", kind: "wide" }], rows)];
}

const HOLDS = {
  "two-servers": () => "One of the two servers follows the protocol, whichever it is: each adds a whole noise.",
  devices: (p, least) => `The two servers do not work together, they follow the protocol, and ${percent(p.honest_fraction)} or more of every batch add their noise. No batch has fewer than ${least}.`,
  shuffler: (p, least) => `The two servers do not work together, the front follows the protocol, and ${percent(p.honest_fraction)} or more of every batch add their noise. Where the front adds noise of its own, that is enough against the analyzer. No batch has fewer than ${least}.`,
  nobody: () => "A device adds its own noise: nobody else is trusted.",
};

function privacy(state) {
  const p = state.privacy, budget = p.budget;
  const most = budget.turns
    ? `At most ${counted(budget.turns, "turn")} in ${duration(budget.period)}, ε = ${number(budget.turns * p.epsilon)} in all: each device keeps a ledger of its own and refuses more than ε = ${number(budget.epsilon)} over any such stretch (an app may set less or more).`
    : `A device with the client's usual limits refuses this experiment; an app must allow ε = ${number(p.epsilon)} a turn.`;
  return [facts([
    ["Promised, one turn", `ε = ${number(p.epsilon)}, δ = ${number(p.delta)}, by ${p.protocol}`],
    ["Spent, one turn", state.accepted === 0 ? "nothing yet: nobody has reported" : `δ = ${number(p.worst_delta)} at ε = ${number(p.epsilon)} in the turn where it is largest so far`],
    ["Spent, all turns", `${counted(state.accepted, "report")}, each charged to its own sender; one person's cost never adds to another's`],
    ["Who is one unit", p.unit],
    ["What one unit can spend", most],
    ["It holds if", HOLDS[state.trust](p, counted(state.smallest, "person", "people"))],
  ]), element("p", {}, element("a", { href: `/participate/${state.experiment}` }, "What a participant sends, and what is not promised"))];
}

function released(event, state) {
  if ("mean" in event && event.arm != null) return `${whole(event.users)} people gave ${quoted(state, event.arm)} a mean of ${inUnits(state, event.mean)}, with noise`;
  if ("sum" in event) return `the sum of ${whole(event.users)} people is ${number(event.sum, 4)}, with noise`;
  return `${whole(event.users)} people are counted`;
}
const EVENTS = {
  configured: (event) => (event.revision ? `Both servers signed revision ${whole(event.revision)} of the configuration` : "Both servers signed the configuration"),
  opened: (event, state) => (event.arm === null ? `The next ${whole(event.users)} people can take part` : `A batch of ${whole(event.users)} opened for ${quoted(state, event.arm)}`),
  released: (event, state) => `Batch ${whole(event.batch)} is closed: ${released(event, state)}` + (event.damaged ? `; ${counted(event.damaged, "message")} could not be read` : ""),
  expired: (event, state) => `Batch ${whole(event.batch)}${event.arm === null ? "" : ` for ${quoted(state, event.arm)}`} ${state.asks_again ? "did not fill in time: it was deleted and will be asked for again" : "is gone, and left out"}`,
  refused: (event, state) => `Batch ${whole(event.batch)} was refused and ${state.asks_again ? "will be asked for again" : "is left out"}: ${event.reason}`,
  operated: (event, state) => `The operator ${event.done} ${event.name ? `“${event.name}”` : event.arm == null ? "the experiment" : quoted(state, event.arm)}`,
};

// Newest first; what followed from an event stands above it.
function lines(state) {
  return state.events.flatMap((event) => [
    { at: event.at, text: EVENTS[event.event](event, state) },
    ...(event.event === "operated" ? [] : event.out || []).map((arm) => ({ at: event.at, weighty: true, text: `${quoted(state, arm)} is out, after ${counted(event.reports, "report")} in all` })),
    ...(event.ended ? [{ at: event.at, weighty: true, text: `The experiment has ended, after ${counted(event.reports, "report")}` }] : []),
  ]).reverse();
}

function log(state) {
  const all = lines(state);
  return [
    element("ol", { class: "log", reversed: "" }, all.slice(0, wholeLog ? all.length : SHORT_LOG).map((line) =>
      element("li", {}, clock(line.at), element("span", line.weighty ? { class: "weighty" } : {}, line.text)))),
    wholeLog && state.records > state.events.length ? element("p", { class: "soft" }, `The newest ${whole(state.events.length)} of ${whole(state.records)} events; the transcript has all.`) : "",
  ];
}

function more(state) {
  const all = lines(state).length;
  if (all <= SHORT_LOG) return [];
  const button = element("button", { type: "button", id: "more", "aria-expanded": String(wholeLog) }, wholeLog ? "Show fewer" : `Show all ${whole(all)}`);
  button.addEventListener("click", () => {
    wholeLog = !wholeLog;
    draw(shown);
    document.getElementById("more").focus();
  });
  return [button];
}

function title(state) {
  return [
    element("h1", {}, state.title, " ", element("span", { class: `state ${state.finished ? "over" : ""}`, id: "status" }, state.finished ? "finished" : "running")),
    state.stalled ? element("p", { class: "trouble", role: "status" }, `Stalled: ${state.stalled}`) : "",
    state.trouble ? element("p", { class: "trouble", role: "alert" }, `The analyzer has trouble: ${state.trouble}`) : "",
  ];
}

function transcript(state) {
  return [element("a", { href: `/experiments/${state.experiment}/transcript`, download: `${state.experiment}.jsonl` }, "Download the transcript"),
    " and check every decision with ", element("code", {}, `croupier verify ${state.experiment}.jsonl`)];
}

function parts(state) {
  const [heading, program] = SHOWN[Object.keys(SHOWN).find((key) => key in state.program)] ?? ["Result", (now) => [other(now)]];
  return [
    ["title", "", title], ["reports", "", reports], ["program", heading, program], ["filling", "Batches filling", filling],
    ["privacy", "Privacy", privacy], ["log", "What happened", log], ["more", "", more], ["transcript", "", transcript],
  ];
}

// Only parts that changed are replaced, so that what somebody reads, or has selected, stays.
function draw(state) {
  shown = state;
  document.title = `${state.title} – croupier`;
  if (main.dataset.experiment !== state.experiment) {
    main.dataset.experiment = state.experiment;
    main.replaceChildren();
  }
  for (const [id, heading, part] of parts(state)) {
    const made = element("section", { id: `part-${id}` }, heading ? element("h2", {}, heading) : "", part(state));
    const old = document.getElementById(made.id);
    if (!old) main.append(made);
    else if (!old.isEqualNode(made)) old.replaceWith(made);
  }
}

// A screen reader hears what is weighty, once.
let announced = null;
function announce(state) {
  const weighty = lines(state).filter((line) => line.weighty);
  const key = `${state.experiment} ${weighty.length}`;
  if (announced !== null && announced !== key && weighty.length) document.getElementById("announcement").textContent = weighty[0].text;
  announced = key;
}

function lost() {
  const notice = document.getElementById("connection");
  if (notice.textContent) return;
  notice.textContent = `The connection to the analyzer is lost; trying again. What is shown is from ${new Date().toLocaleTimeString("en-GB")}.`;
}

function listen(name) {
  const source = new EventSource(`/experiments/${name}/live`);
  source.onopen = () => { document.getElementById("connection").textContent = ""; };
  source.onmessage = (message) => {
    const state = JSON.parse(message.data);
    draw(state);
    announce(state);
  };
  source.onerror = () => {
    lost();
    // A browser tries again by itself unless the answer was no stream at all.
    if (source.readyState === EventSource.CLOSED) again();
  };
  return source;
}

let current = null, waiting = null;
function again() {
  clearTimeout(waiting);
  waiting = setTimeout(start, RETRY);
}

async function start() {
  if (current) current.close();
  current = null;
  wholeLog = false;
  announced = null;
  try {
    const { experiments } = await fetched("/experiments");
    const wanted = decodeURIComponent(location.hash.slice(1)) || (experiments.length ? experiments[0].name : "");
    document.getElementById("experiments").replaceChildren(...experiments.map((one) =>
      element("a", { href: `#${one.name}`, ...(one.name === wanted ? { "aria-current": "page" } : {}) }, one.name)));
    if (experiments.some((one) => one.name === wanted)) current = listen(wanted);
    else main.replaceChildren(element("p", {}, wanted ? `There is no experiment called “${wanted}”.` : "There is no experiment."));
  } catch {
    lost();
    again();
  }
}

window.addEventListener("hashchange", start);
window.addEventListener("resize", () => { if (shown && "points" in shown.program) draw(shown); });
start();
