// What a personalised experiment has learnt: what it gains, who chooses what, and on what that depends.
import { apart, counted, element, number, percent, table } from "./pages.js";
import { difference, interval } from "./pictures.js";

// What is learnt is in the rewards' own units already.
function inRewards({ low, high }) {
  const { said, unit } = apart({ low, high });
  return { said: (value, sign) => said(value / (high - low), sign), unit };
}

const SHOWN = { gains: ["better", "✓"], loses: ["no-difference", "–"], open: ["leading", "…"] };
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`.replace(/-(?=\d)/g, "−");

// The gain in words, and as an interval beside none.
function gained(gain, rewards) {
  if (!gain) return element("p", { class: "soft" }, "What is gained is known after two batches.");
  const [kind, sign] = SHOWN[gain.verdict], { said, unit } = inRewards(rewards);
  const words = element("p", { class: "sentence" }, element("span", { class: "sign", "aria-hidden": "true" }, sign), ` ${sentence(gain.sentence)}`);
  const reach = Math.min(rewards.high - rewards.low, Math.max(1e-9, Math.abs(gain.lower), Math.abs(gain.upper)));
  const range = `${said(gain.lower, true)} to ${said(gain.upper, true)}${unit}`;
  return element("div", { class: `decision ${kind}` }, words,
    difference(gain.gain, gain.lower, gain.upper, reach, `The gain: ${said(gain.gain, true)}${unit}, interval ${range}`),
    element("p", { class: "soft" }, gain.measured ? `Measured among ${counted(gain.users, "user")}, of whom a random share was given that action whatever the rule said; later users count more. 95 % interval, valid whenever you look: ${range}.`
      : "No share of the users was given that action by chance, so this is only what the model says."));
}

function choices({ choices: rows, features }) {
  const shown = (row) => interval({ ...row, mean: row.share }, `${row.action ?? "all actions"}: ${percent(row.share)}, interval ${percent(row.lower)} to ${percent(row.upper)}`);
  return table("Who chooses what", [{ text: "Action" }, ...features.map((name) => ({ text: `Mean ${name}`, kind: "number", short: `mean ${name}` })),
    { text: "Users", kind: "number", short: "users" }, { text: "Share of users, with its 95 % interval", kind: "wide" }],
  rows.map((row) => ({
    cells: [element("b", {}, row.action ?? "all actions"), ...features.map((name) => number(row[`mean_${name}`])), percent(row.share),
      element("div", {}, shown(row), element("small", { class: "soft" }, `${percent(row.lower)} to ${percent(row.upper)}`))],
  })));
}

const isLevel = (row) => row.coefficient === "(level)";

// A coefficient over its feature's whole range, so that all can be compared; the level as it is.
function over(row, range) {
  const factor = range ? range[1] - range[0] : 1;
  return { ...row, value: factor * row.value, lower: factor * row.lower, upper: factor * row.upper };
}

function effects({ coefficients, ranges, rewards }) {
  const { low, high } = rewards, { said, unit } = inRewards(rewards);
  const names = [...new Set(coefficients.map((row) => row.coefficient))];
  const rows = names.flatMap((name) => coefficients.filter((row) => row.coefficient === name).map((row) => over(row, ranges[name])));
  if (!rows.some((row) => row.known)) return element("p", { class: "soft" }, "Nothing is known of the coefficients yet: every interval is as wide as rewards allow.");
  const reach = Math.max(1e-9, ...rows.filter((row) => row.known && !isLevel(row)).flatMap((row) => [Math.abs(row.lower), Math.abs(row.upper)]));
  const unitary = (value) => (value - low) / (high - low);
  const picture = (row, label) => (isLevel(row) ? interval({ mean: unitary(row.value), lower: unitary(row.lower), upper: unitary(row.upper) }, label)
    : difference(row.value, row.lower, row.upper, reach, label));
  const about = (row) => (isLevel(row) ? "mean in the middle of all ranges" : ranges[row.coefficient] ? `from ${ranges[row.coefficient].map((end) => number(end)).join(" to ")}` : "");
  return table("What makes a difference", [{ text: "Feature" }, { text: "Action", kind: "standing" }, { text: `Change${unit && `, in${unit}`}`, kind: "number" }, { text: "95 % interval", kind: "wide" }],
    rows.map((row, i) => {
      const [name, action, sign] = [isLevel(row) ? "Level" : row.coefficient, row.action ?? "all actions", !isLevel(row)];
      const [value, range] = row.known ? [said(row.value, sign), `${said(row.lower, sign)} to ${said(row.upper, sign)}${unit}`] : ["–", "nothing is known yet"];
      return { cells: [
        element("span", i && rows[i - 1].coefficient === row.coefficient ? { class: "again" } : {}, element("b", {}, name), " ", element("small", { class: "soft" }, about(row))), action, value,
        element("div", {}, row.known ? picture(row, `${name}, ${action}: ${value}, interval ${range}`) : "", element("small", { class: "soft" }, range))] };
    }));
}

// What the bounds of coefficients assume of a parameter.
const assumed = ({ norm }) => `no parameter is longer than ${number(norm)}, as it says in the signed experiment`;

export function personalised(state) {
  const { program } = state;
  if (!program.choices.length) return [element("p", { class: "soft" }, "Nothing is known yet: devices choose at random until the first batch is full.")];
  return [
    gained(program.gain, program.rewards),
    element("h3", {}, "Who chooses what"), choices(program),
    element("p", { class: "soft" }, `Among ${counted(program.users, "user")}, in expectation: it follows from the sums, in which nobody can be found.`),
    element("h3", {}, "What makes a difference"), effects(program),
    program.coefficients.some((row) => row.known) ? element("p", { class: "soft" }, `How much the mean changes from the lowest to the highest value of a feature, all others the same. All intervals hold together and at all times with a chance of 95 %, if the mean is linear and ${assumed(program)}; the downloads have the change for one more of each feature.`) : "",
    program.caveat ? element("p", { class: "soft" }, program.caveat) : "",
  ];
}
