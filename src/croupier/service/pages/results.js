// What a program has found, drawn by what it shows of itself: comparisons, arms, sums, counts.
import { multiples, shares, traffic } from "./curves.js";
import { apart, clock, counted, duration, element, facts, minus, number, percent, table, whole } from "./pages.js";
import { personalised } from "./personal.js";
import { bar, difference, interval, sums } from "./pictures.js";

// Rewards are on the scale from 0 to 1 inside, and people see their own.
const scaled = (state, value) => inUnits(state, state.values.low + value * (state.values.high - state.values.low));

// All rewards with as many decimals, so that they can be compared at a glance: a thousandth of the scale.
export function inUnits(state, value) {
  const decimals = Math.max(0, 3 - Math.round(Math.log10(state.values.high - state.values.low)));
  return minus(value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
}

const STARRED = ["winner", "best", "best so far"];

function standing(arm) {
  if (arm.out) return element("span", {}, `${arm.standing} after ${counted(arm.out.reports, "report")} in all, `, clock(arm.out.at));
  return STARRED.includes(arm.standing) ? element("span", { class: "best" }, `★ ${arm.standing}`) : arm.standing;
}

const SIGNS = { better: "✓", "no difference": "=", leading: "…", "no decision": "–", harmful: "✗" };

// What may be said now, in words.
export function decision(state) {
  const { decision: found, program } = state;
  if (!found) return [];
  const [first, ...rest] = found.sentence;
  const names = (arm) => state.arms[arm];
  const notes = [];
  const [lift, least, most] = (found.lift ?? []).map((share) => (Number.isFinite(share) ? minus(percent(share)) : null));
  if (lift && !["no decision", "no difference", "harmful"].includes(found.kind)) {
    const known = least && most ? ` (${least} to ${most})` : least ? ` (at least ${least})` : most ? ` (at most ${most})` : "";
    notes.push(`Lift: ${names(found.leader)} has ${lift} more than ${names(found.reference)}${known}.`);
  }
  if (found.tipping_sentence) notes.push(`${found.tipping_sentence[0].toUpperCase()}${found.tipping_sentence.slice(1)}.`);
  if (!program.decided && !program.may_decide && !state.finished) notes.push(`It is decided after ${duration(program.minimum_run)} at the earliest.`);
  notes.push("Reporting rates of the arms are compared all the time. If as many are silent in each arm, but other people, nobody can see it.");
  return [element("div", { class: `decision ${found.kind.replace(" ", "-")}` },
    element("p", { class: "sentence" }, element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[found.kind] ?? ""), ` ${first.toUpperCase()}${rest.join("")}.`),
    notes.map((note) => element("p", { class: "soft" }, note)))];
}

function comparison(state) {
  const { program, curve } = state, { said, unit } = apart(state.values);
  const now = curve[curve.length - 1], control = program.control;
  const known = (arm) => now && Number.isFinite(now.difference[arm]) && arm !== control && program.arms[arm].batches && program.arms[control].batches;
  const ends = curve.length ? program.arms.flatMap((_, arm) => (known(arm) ? [now.lower[arm], now.upper[arm]] : [])).filter(Number.isFinite) : [];
  const reach = Math.max(1e-3, ...ends.map(Math.abs));
  const rows = program.arms.map((arm) => {
    const range = known(arm.arm) ? `${said(now.lower[arm.arm] ?? -1, true)} to ${said(now.upper[arm.arm] ?? 1, true)}` : "";
    return {
      kind: arm.active ? "" : "gone",
      cells: [
        element("span", {}, element("b", {}, state.arms[arm.arm]), arm.arm === control ? element("span", { class: "tag" }, "control") : ""),
        standing(arm), whole(arm.users), percent(state.odds[arm.arm] ?? 0), arm.batches ? scaled(state, arm.mean) : "–",
        arm.arm === control ? element("small", { class: "soft" }, "the others are compared with it")
          : known(arm.arm) ? element("div", {}, difference(now.difference[arm.arm], now.lower[arm.arm], now.upper[arm.arm], reach, `${state.arms[arm.arm]}: ${said(now.difference[arm.arm], true)}${unit}, interval ${range}`),
            element("small", { class: "soft" }, element("b", {}, said(now.difference[arm.arm], true)), `${unit} (${range})`))
            : element("small", { class: "soft" }, "no block yet"),
      ],
    };
  });
  const level = percent(state.decision?.confidence ?? 0.95);
  return [
    table("Arms", [{ text: "Arm" }, { text: "Standing", kind: "standing" }, { text: "Reports", kind: "number", short: "reports" }, { text: "Odds", kind: "number", short: "odds" }, { text: "Mean", kind: "number", short: "mean" },
      { text: `Difference to ${state.arms[control]}${unit ? `, in${unit}` : ""}`, kind: "wide" }], rows),
    element("p", { class: "soft" }, `Differences are taken within blocks, in which all arms run side by side, and summed. All intervals hold together and at every look with a chance of ${level}. A mean is over all of an arm's reports, whenever they came; arms are compared by the difference only.`),
    ...metrics(state, level),
  ];
}

// What is said of a metric of an arm; what decides is said above.
function guard({ role, state, margin }) {
  if (role !== "guardrail") return role === "primary" ? "decides" : "not decided by";
  return { safe: `✓ safe: not worse by more than ${number(margin)}`, harmed: `✗ harmed: worse by more than ${number(margin)}` }[state]
    ?? `not known yet whether worse by more than ${number(margin)}`;
}

// Every metric with every arm, where a report has several.
function metrics(state, level) {
  const rows = state.program.metrics;
  if (!rows) return [];
  const reach = (metric) => Math.max(1e-9, ...rows.filter((row) => row.metric === metric).flatMap((row) => [row.lower, row.upper]).filter(Number.isFinite).map(Math.abs));
  const signed = (value) => `${value > 0 ? "+" : ""}${number(value)}`;
  const shown = (row) => {
    if (!Number.isFinite(row.difference)) return element("small", { class: "soft" }, "no block yet");
    const range = `${signed(row.lower)} to ${signed(row.upper)}`, name = state.arms[row.arm];
    return element("div", {}, difference(row.difference, row.lower, row.upper, reach(row.metric), `${row.metric}, ${name}: ${signed(row.difference)}, interval ${range}`),
      element("small", { class: "soft" }, element("b", {}, signed(row.difference)), ` (${range}; ${row.better} is better)`));
  };
  return [
    element("h3", {}, "Metrics"),
    table("Metrics", [{ text: "Metric" }, { text: "Standing", kind: "standing" }, { text: `Difference to ${state.arms[state.program.control]}, in the metric's own unit`, kind: "wide" }],
      rows.map((row) => ({ kind: row.state === "harmed" ? "gone" : "", cells: [element("span", {}, element("b", {}, row.metric), " ", element("span", { class: "tag" }, state.arms[row.arm])), guard(row), shown(row)] }))),
    element("p", { class: "soft" }, `An arm is decided for only if it is safe in every guardrail. Each metric's intervals hold at every look with a chance of ${level}, for all arms together; they are not corrected for there being several metrics.`),
  ];
}

function arms(state) {
  if ("control" in state.program) return comparison(state);
  const value = (share) => scaled(state, share);
  const { low, high } = state.values;
  const rows = state.program.arms.map((arm) => {
    const range = `${value(arm.lower)} to ${value(arm.upper)}`;
    const said = `${state.arms[arm.arm]}: ${value(arm.mean)}, interval ${range}`;
    return {
      kind: arm.active ? "" : "gone",
      cells: [
        element("b", {}, state.arms[arm.arm]), standing(arm), whole(arm.users), arm.batches ? value(arm.mean) : "–",
        arm.batches ? element("div", {}, interval(arm, said), element("small", { class: "soft" }, range)) : element("small", { class: "soft" }, "no batch released yet"),
      ],
    };
  });
  return [
    table("Arms", [{ text: "Arm" }, { text: "Standing", kind: "standing" }, { text: "Reports", kind: "number", short: "reports" }, { text: "Mean", kind: "number", short: "mean" },
      { text: `95 % interval, on the scale from ${number(low)} to ${number(high)}`, kind: "wide" }], rows),
    element("p", { class: "soft" }, "All intervals hold together and at all times with a chance of 95 %, so looking often costs nothing."
      + (state.program.arms.some((arm) => arm.mean < 0 || arm.mean > 1) ? " A mean is a sum with noise over its reports, so noise can carry it beyond the scale; the true mean, and the interval, stay on it." : "")),
    element("p", { class: "soft" }, "This policy shows arms one after the other and claims no comparison: a difference may come from the time of day. Policies in blocks, such as split, compare."),
  ];
}

function counter(state, width) {
  const { points, estimate, bound, planned, shufflers, left_out: missing } = state.program;
  if (!points.length) return [element("p", { class: "soft" }, "No sum yet: the first batch is filling.")];
  return [
    element("p", { class: "result" }, "The sum so far is ", element("b", {}, bound > 10 ? whole(estimate) : number(estimate, 4)), `, off by at most ${number(bound)} (with a chance of 95 %, at all times together).`),
    missing ? element("p", {}, `Nothing is known of ${counted(missing, "person", "people")}: their batch was refused and left out. They count as the middle, and the bound allows for it.`) : "",
    sums(points, planned, width),
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

const other = (state) => [facts(Object.entries(state.program).map(([key, value]) => [key, JSON.stringify(value)]))];

// How a program is shown follows from what it shows of itself, whatever kind it is of.
const SHOWN = { arms: ["Arms", arms], points: ["The sum", counter], top: ["Counts", histogram], coefficients: ["What was learnt", personalised] };
export const shownAs = (state) => SHOWN[Object.keys(SHOWN).find((key) => key in state.program)] ?? ["Result", other];

function compared(state, width) {
  const { said, unit } = apart(state.values), control = state.program.control;
  const series = state.arms.map((name, arm) => arm).filter((arm) => arm !== control && state.program.arms[arm]).map((arm) => {
    const points = state.curve.map((point) => ({ at: point.at, value: point.difference[arm], lower: point.lower[arm], upper: point.upper[arm] }));
    const last = points[points.length - 1];
    return { name: state.arms[arm], points, now: Number.isFinite(last.value) ? `${said(last.value, true)}${unit} (${said(last.lower ?? -1, true)} to ${said(last.upper ?? 1, true)})` : "" };
  });
  return [element("h3", {}, `Difference to ${state.arms[control]}${unit ? `, in${unit}` : ""}`),
    multiples(series, { width, shown: (value) => said(value), zero: true }),
    element("p", { class: "soft" }, "The band is the interval as it was then: it holds at every look.")];
}

function estimated(state, width) {
  const series = state.program.arms.map(({ arm }) => {
    const points = state.curve.map((point) => ({ at: point.at, value: point.mean[arm], lower: point.lower[arm], upper: point.upper[arm] }));
    const last = points[points.length - 1];
    return { name: state.arms[arm], points, now: Number.isFinite(last.value) ? `${scaled(state, last.value)} (${scaled(state, last.lower)} to ${scaled(state, last.upper)})` : "not shown yet" };
  });
  return [element("h3", {}, "Estimates"), multiples(series, { width, shown: (value) => scaled(state, value), low: 0, high: 1 })];
}

// Nothing is drawn of less than two moments.
export function history(state, width) {
  const { curve } = state;
  if (!curve || curve.length < 2) return [];
  const last = curve[curve.length - 1];
  return [
    element("h2", {}, "Over time"),
    last.difference ? compared(state, width) : last.mean ? estimated(state, width) : "",
    last.odds && curve.some((point) => String(point.odds) !== String(last.odds)) ? [element("h3", {}, "Odds"), shares(curve, state.arms.slice(0, last.odds.length), width)] : "",
    element("h3", {}, "Reports"), traffic(curve, width),
  ];
}
