// What happened, in words: an experiment's events, and what operators did.
import { clock, counted, element, number, whole } from "./pages.js";
import { refusals } from "./privacy.js";
import { inUnits } from "./results.js";

export const quoted = (state, arm) => (arm === null || arm === undefined ? "" : `“${state.arms[arm]}”`);

function released(event, state) {
  if ("mean" in event && event.arm != null) return `${whole(event.users)} people gave ${quoted(state, event.arm)} a mean of ${inUnits(state, event.mean)}, with noise`;
  if ("sum" in event) return `the sum of ${whole(event.users)} people is ${number(event.sum, 4)}, with noise`;
  return `${whole(event.users)} people are counted`;
}

function ended(event, state) {
  if ("turns" in event) return "is over: nobody reported to it";
  return state.asks_again ? "did not fill in time: it was deleted and will be asked for again" : "is gone, and left out";
}

const EVENTS = {
  configured: (event) => (event.revision ? `Both servers signed revision ${whole(event.revision)} of the configuration` : "Both servers signed the configuration"),
  opened: (event, state) => (event.arm === null ? `The next ${whole(event.users)} people can take part` : `A batch of ${whole(event.users)} opened for ${quoted(state, event.arm)}`),
  released: (event, state) => `Batch ${whole(event.batch)} is closed: ${released(event, state)}` + (event.damaged ? `; ${counted(event.damaged, "message")} could not be read` : "") + (event.refused ? `; of the reports refused, ${refusals(event.refused)}` : ""),
  expired: (event, state) => `Batch ${whole(event.batch)}${event.arm === null ? "" : ` for ${quoted(state, event.arm)}`} ${ended(event, state)}`,
  refused: (event, state) => `Batch ${whole(event.batch)} was refused and ${state.asks_again ? "will be asked for again" : "is left out"}: ${event.reason}`,
  operated: (event, state) => `The operator ${event.done} ${event.name ? `“${event.name}”` : event.arm == null ? "the experiment" : quoted(state, event.arm)}`,
  decided: (event, state) => `Decided: ${state.decision ? state.decision.sentence : event.decision?.kind}`,
};

// Newest first; what followed from an event stands above it.
export function lines(state) {
  return state.events.flatMap((event) => [
    { at: event.at, weighty: event.event === "decided", text: (EVENTS[event.event] ?? (() => event.event))(event, state) },
    ...(event.event === "operated" ? [] : event.out || []).map((arm) => ({ at: event.at, weighty: true, text: `${quoted(state, arm)} is out, after ${counted(event.reports, "report")} in all` })),
    ...(event.ended ? [{ at: event.at, weighty: true, text: `The experiment has ended, after ${counted(event.reports, "report")}` }] : []),
  ]).reverse();
}

const DONE = {
  created: (line) => `created “${line.experiment}”`,
  started: (line) => `started “${line.experiment}”`,
  archived: (line) => `archived “${line.experiment}”`,
  operated: (line) => `asked “${line.experiment}” to ${line.operation}${line.arm ?? line.name ? ` “${line.arm ?? line.name}”` : ""}${line.shares ? `: ${Object.entries(line.shares).map((pair) => pair.join(" ")).join(", ")}` : ""}`,
  entered: () => "logged in",
  left: () => "logged out",
  admitted: (line) => `let ${line.operator} operate`,
  removed: (line) => `lets ${line.operator} operate no longer`,
};

// Who did what, the newest first.
export function audited(audit) {
  return element("ol", { class: "log" }, [...audit].reverse().map((line) =>
    element("li", {}, clock(line.at), element("span", {}, element("b", {}, line.who), ` ${(DONE[line.event] ?? (() => line.event))(line)}`))));
}
