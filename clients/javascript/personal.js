// How the devices of one experiment choose, and what each of them reports: all that its signed configuration says.
//
// Where every action has a parameter of its own, a user is one vector, the context. Where actions are described by
// numbers in [-1, 1] and share one parameter, a user comes with a vector for each action: every number of the context
// (and one) times every number of the description, and a constant.

import { Context } from "./context.js";
import { withConstant } from "./features.js";
import { demand, notAllowed } from "./problems.js";
import { unitOf } from "./randomizing.js";
import { checkKeys, isWhole } from "./reading.js";

const MOST_NUMBERS = 100_000; // of all vectors that a user chooses by

// Whether devices choose by themselves, from a context that stays there.
export const isPersonal = ({ program }) => Object.hasOwn(program, "features");

const isTexts = (value) => Array.isArray(value) && value.every((one) => typeof one === "string");

// A description for each action, all of one length, each number in [-1, 1].
function checkDescribed(described, actions) {
  const isNumber = (one) => typeof one === "number" && one >= -1 && one <= 1;
  const isRow = (row) => Array.isArray(row) && row.length > 0 && row.every(isNumber);
  const isTable = Array.isArray(described) && described.length === actions.length && described.every(isRow);
  demand(isTable && new Set(described.map((row) => row.length)).size === 1, "malformed", "how actions are described");
}

export class Personal {
  // What the program of a signed configuration says.
  constructor({ features, actions, described = null, clip = false, control = 0, reward }) {
    demand(isTexts(actions) && actions.length >= 2 && Array.isArray(features), "malformed", "actions or features");
    if (described !== null) checkDescribed(described, actions);
    demand(typeof control === "number" && control >= 0 && control < 1, "malformed", `control = ${control}`);
    checkKeys("rewards", reward, "low high binary clip");
    Object.assign(this, { actions, context: new Context(features, { clip }), described, control, reward });
    demand(this.dimension * actions.length <= MOST_NUMBERS, "unsupported", `${this.dimension} numbers for each action`);
    Object.freeze(this);
  }

  // Parameters: one that all actions share, or one for each action.
  get places() {
    return this.described ? 1 : this.actions.length;
  }

  // Numbers of a user's vector.
  get dimension() {
    const own = this.context.dimension;
    return this.described ? own * this.described[0].length + 1 : own;
  }

  // A user's vector, or one for each action; what is missing, unknown or out of range is refused by name.
  vectors(given) {
    const own = this.context.vector(given);
    if (!this.described) return own;
    const root = Math.sqrt(this.described[0].length);
    const mixed = (row) => own.flatMap((number) => row.map((one) => number * (one / root)));
    return withConstant(this.described.map(mixed));
  }

  // What a report sums must be what this experiment is about.
  checkMoments(moments) {
    const { features, places, centred } = moments ?? {};
    const about = features === this.dimension && places === this.places && centred === true;
    demand(about, "not-covered", `a batch does not sum ${this.dimension} numbers in ${this.places} places`);
  }

  // A rule that is about something else is refused.
  checkRule(rule) {
    const { dimension, places } = this;
    const about = rule.dimension === dimension && rule.beliefs.length === places;
    demand(about, "not-covered", `a rule that is not about ${places} parameters of ${dimension} numbers`);
    demand(rule.control <= this.control, "not-covered", `a control share of ${rule.control}, above ${this.control}`);
    const named = rule.single === null || rule.single < this.actions.length;
    demand(named, "not-covered", `a rule whose single action is ${rule.single} of ${this.actions.length}`);
    return rule;
  }

  // Chooses by the rule, with the device's own draws: {action, control, vector}, which stay on the device.
  choose(rule, given) {
    const vectors = this.vectors(given);
    const { action, control } = this.checkRule(rule).play(vectors);
    return { action, control, vector: this.described ? vectors[action] : vectors };
  }

  // The vector that a device reports of a reward in its own units.
  report({ action, control, vector }, reward, moments) {
    this.checkMoments(moments);
    return moments.of(vector, unitOf(this.reward, reward), this.described ? 0 : action, control);
  }
}

// Before anything is sent: a context must be what the experiment chooses by, and be there only if it does.
export function checkContext(configuration, context) {
  const { experiment, program } = configuration;
  if (!isPersonal(configuration)) {
    if (context !== undefined) throw notAllowed("context", "given", `left out: nobody chooses in ${experiment}`);
    return;
  }
  const personal = new Personal(program);
  const names = personal.context.names.join(", ");
  const isGiven = typeof context === "object" && context !== null && !Array.isArray(context);
  if (!isGiven) throw notAllowed("context", context, `a value for each of ${names}, by which the device chooses`);
  personal.vectors(context);
}

// A choice as it was kept.
export function readChoice(choice) {
  checkKeys("a choice", choice, "action control vector");
  const { action, control, vector } = choice;
  const numbers = Array.isArray(vector) && vector.every((number) => Number.isFinite(number));
  demand(isWhole(action, 0) && typeof control === "boolean" && numbers, "malformed", "a choice");
  return Object.freeze({ action, control, vector });
}
