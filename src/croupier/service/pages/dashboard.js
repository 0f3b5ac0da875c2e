// The dashboard: one experiment's state, drawn again whenever the analyzer sends it anew.
import { audited, lines } from "./events.js";
import { audit, corner, look, operate, operator } from "./operator.js";
import { clock, element, fetched, figures, number, table, whole } from "./pages.js";
import { privacy } from "./privacy.js";
import { decision, history, shownAs } from "./results.js";

const RETRY = 1500;
const SHORT_LOG = 12;
const main = document.getElementById("main");
let shown = null, wholeLog = false, formats = [], done = [];

function reports(state) {
  const { planned } = state.program;
  const missing = Math.max(0, state.assigned - state.accepted);
  // What has come is told in steps; once no more comes, what counts is known exactly.
  const count = state.finished ? state.reports : state.accepted;
  const said = state.finished ? `in released batches${planned && count < planned ? "; it ended there" : ""}`
    : `in released batches: ${whole(state.reports)}. Others are told in steps, so that no single one shows`;
  return figures([
    [state.finished ? "Reports that count" : "Reports accepted", planned ? `${whole(count)}${count > planned ? ", planned" : " of"} ${whole(planned)}` : whole(count),
      planned ? element("progress", { max: planned, value: Math.min(planned, count), "aria-label": "reports" }) : "", said],
    ["Turns without a report", whole(missing), "still out, never reported or too late; they do not count. Turns are told in steps of 32"],
    ["Privacy of one turn", `ε = ${number(state.privacy.epsilon)}`, `δ = ${number(state.privacy.delta)}`],
  ]);
}

function filling(state) {
  if (!state.open.length) return [element("p", { class: "soft" }, state.finished ? "None: the experiment has ended." : "None right now.")];
  const rows = state.open.flatMap((offer) => offer.batches.map((batch) => ({
    cells: [
      element("span", {}, element("b", {}, offer.arm === null ? `batch ${whole(batch.batch)}` : state.arms[offer.arm]), offer.arm === null ? "" : element("span", { class: "soft" }, ` batch ${whole(batch.batch)}`)),
      `${whole(batch.received)} of ${whole(batch.users)}`,
      element("progress", { max: batch.users, value: batch.received, "aria-label": `batch ${batch.batch}` }),
    ],
  })));
  return [table("Batches filling", [{ text: "Batch" }, { text: "Reports", kind: "number" }, { text: "How full", kind: "wide" }], rows)];
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
    element("h1", {}, state.title, " ", element("span", { class: `state ${state.standing}`, id: "status" }, state.standing), state.public ? "" : element("span", { class: "tag" }, "private")),
    state.stalled ? element("p", { class: "trouble", role: "status" }, `Stalled: ${state.stalled}`) : "",
    state.trouble ? element("p", { class: "trouble", role: "alert" }, `The analyzer has trouble: ${state.trouble}`) : "",
  ];
}

const TABLES = { batches: "Batches", result: "Result", curve: "Curve", metrics: "Metrics" };

function downloads(state) {
  const base = `/experiments/${state.experiment}`;
  const link = (table, format) => element("a", { href: `${base}/tables/${table}.${format}`, download: `${state.experiment}-${table}.${format}`, "aria-label": `${TABLES[table]} as ${format}` }, format.toUpperCase());
  return [
    element("p", {}, element("a", { href: `${base}/transcript`, download: `${state.experiment}.jsonl` }, "Download the transcript"),
      " and check every decision with ", element("code", {}, `croupier verify ${state.experiment}.jsonl`)),
    element("ul", { class: "downloads" }, Object.entries(TABLES).filter(([name]) => name !== "metrics" || state.program.metrics).map(([name, words]) => element("li", {}, `${words} as rows: `, formats.flatMap((format, i) => [i ? " · " : "", link(name, format)])))),
    formats.includes("parquet") ? "" : element("p", { class: "soft" }, "There is no Parquet here: the server has no pyarrow."),
  ];
}

function whoDidWhat() {
  if (!operator() || !done.length) return [];
  return [element("h2", {}, "Who did what"), audited(done.slice(-SHORT_LOG)),
    element("p", {}, "All of it: ", formats.flatMap((format, i) => [i ? " · " : "", element("a", { href: `/audit.${format}`, download: `audit.${format}`, "aria-label": `Who did what as ${format}` }, format.toUpperCase())]))];
}

function parts(state) {
  const [heading, program] = shownAs(state);
  const wide = main.clientWidth;
  return [
    ["title", "", title], ["operate", operator() ? "Operate" : "", (now) => operate(now, noted)], ["decision", "", decision], ["reports", "", reports],
    ["program", heading, (now) => program(now, wide)], ["history", "", (now) => history(now, wide)],
    ["filling", "Batches filling", filling], ["privacy", "Privacy", privacy], ["log", "What happened", log], ["more", "", more],
    ["downloads", "Downloads", downloads], ["audit", "", whoDidWhat],
  ];
}

// Only parts that changed are replaced, so that what somebody reads, writes or has selected stays.
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
    else if (!old.isEqualNode(made)) {
      const within = old.contains(document.activeElement);
      old.replaceWith(made);
      // Whoever operates by keyboard stays where they were.
      if (within) made.querySelector("button, a, input")?.focus();
    }
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
    const before = shown?.experiment === state.experiment ? shown.standing : state.standing;
    draw(state);
    announce(state);
    if (before !== state.standing) list();
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

// Where one can go: what is put away last, and apart.
function navigation(experiments, wanted) {
  const link = (one) => element("a", { href: `#${one.name}`, title: `${one.title} (${one.standing})`, ...(one.name === wanted ? { "aria-current": "page" } : {}) }, one.name);
  const away = experiments.filter((one) => one.standing === "archived");
  const open = away.some((one) => one.name === wanted) ? { open: "" } : {};
  return [...experiments.filter((one) => one.standing !== "archived").map(link), away.length ? element("details", open, element("summary", {}, "Archive"), away.map(link)) : ""].filter(Boolean);
}

async function list() {
  const { experiments, formats: known } = await fetched("/experiments");
  formats = known;
  const wanted = decodeURIComponent(location.hash.slice(1)) || (experiments.length ? experiments[0].name : "");
  document.getElementById("experiments").replaceChildren(...navigation(experiments, wanted));
  return [experiments, wanted];
}

// Something was done, of which the experiment itself tells: who did it is asked for anew.
async function noted() {
  [done] = await Promise.all([audit(), list()]);
  if (shown) draw(shown);
}

async function start() {
  if (current) current.close();
  current = null;
  wholeLog = false;
  announced = null;
  try {
    await look();
    document.getElementById("corner").replaceChildren(...corner(start));
    const [[experiments, wanted], audits] = await Promise.all([list(), audit()]);
    done = audits;
    if (experiments.some((one) => one.name === wanted)) current = listen(wanted);
    else nothing(wanted);
  } catch {
    lost();
    again();
  }
}

function nothing(wanted) {
  delete main.dataset.experiment;
  shown = null;
  main.replaceChildren(element("p", {}, wanted ? `There is no experiment called “${wanted}”.` : "There is no experiment."),
    operator() ? "" : element("p", { class: "soft" }, "Some may be private: operators see them when they log in."));
}

window.addEventListener("hashchange", start);
window.addEventListener("resize", () => { if (shown) draw(shown); });
start();
