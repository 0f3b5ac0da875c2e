// What was promised, what was spent, and who must be trusted for it.
import { counted, duration, element, facts, number, percent, whole } from "./pages.js";

const HOLDS = {
  "two-servers": () => "One of the two servers follows the protocol, whichever it is: each adds a whole noise.",
  devices: (p, least) => `The two servers do not work together, they follow the protocol, and ${percent(p.honest_fraction)} or more of every batch add their noise. No batch has fewer than ${least}.`,
  shuffler: (p, least) => `The two servers do not work together, the front follows the protocol, and ${percent(p.honest_fraction)} or more of every batch add their noise. Where the front adds noise of its own, that is enough against the analyzer. No batch has fewer than ${least}.`,
  nobody: () => "A device adds its own noise: nobody else is trusted.",
};

// How much somebody who sends what no honest device does is worth, and how many did.
const LIARS = {
  prio3: "Every report proves that its value is in range, and both servers check it: a liar is worth one report.",
  none: "Reports prove nothing: a liar may count for more than one report.",
};
const REFUSED = {
  invalid: "did not prove their value", malformed: "were malformed", unopenable: "could not be opened", repeated: "had come before",
  ended: "came for a batch that was ended",
};
export const refusals = (refused) => Object.entries(refused).map(([why, count]) => `${whole(count)} ${REFUSED[why]}`).join(", ");

export function privacy(state) {
  const p = state.privacy, budget = p.budget;
  const most = budget.turns
    ? `At most ${counted(budget.turns, "turn")} in ${duration(budget.period)}, ε = ${number(budget.turns * p.epsilon)} in all: each device keeps a ledger of its own and refuses more than ε = ${number(budget.epsilon)} over any such stretch (an app may set less or more).`
    : `A device with the client's usual limits refuses this experiment; an app must allow ε = ${number(p.epsilon)} a turn.`;
  return [facts([
    ["Promised, one turn", `ε = ${number(p.epsilon)}, δ = ${number(p.delta)}, by ${p.protocol}`],
    ["Spent, one turn", state.accepted === 0 ? "nothing yet: nobody has reported" : `recomputed: no turn so far cost more than ε = ${number(p.epsilon)}, δ = ${number(p.worst_delta)}`],
    ["Spent, all turns", `${counted(state.accepted, "report")}, each charged to its own sender; one person's cost never adds to another's`],
    ["Who is one unit", p.unit],
    ["What one unit can spend", most],
    ["It holds if", HOLDS[state.trust](p, counted(state.smallest, "person", "people"))],
    ["Validity", LIARS[state.validity]],
    ["Reports refused", Object.keys(state.refused).length ? `${refusals(state.refused)}, in the batches closed so far` : "none in the batches closed so far"],
  ]), element("p", {}, element("a", { href: `/participate/${state.experiment}` }, "What a participant sends, and what is not promised"))];
}
