// The published rule: all that a device needs to choose by itself.
//
//   const rule = Rule.fromJSON(text);
//   const { action, control } = rule.play(context.vector({ age: 75, visits: 10 }));
//
// Where all actions share one parameter, a user comes with a feature vector for each action. Where each action has a
// parameter of its own, the user comes with one vector, their context. The score of an action is its estimated mean
// plus how far that can be off. Of several sets the one counts that leaves an action the least. A share of the devices,
// drawn by each, is pessimistic: it plays the action whose mean is surely largest.

import { checkFeatures, product } from "./features.js";
import { below, happens } from "./noise.js";
import { fraction } from "./numbers.js";
import { demand, notAllowed } from "./problems.js";
import { checkKeys, isWhole, readJson } from "./reading.js";

const VERSION = 1;
const LONGEST_TEXT = 4 * 2 ** 20; // some hundred actions with a parameter of their own, of twenty numbers each

const isNumbers = (value, length) =>
  Array.isArray(value) && value.length === length && value.every((number) => Number.isFinite(number));
const isBelow = (value, most) => Number.isFinite(value) && value >= 0 && value < most;

// What is known of one parameter: an estimate, and how far the truth can be from it along each of the axes, of which
// there are as many. V = Σ vᵢqᵢqᵢᵀ, with qᵢ the columns of `axes` and vᵢ the `values`; every x has
//
//   |⟨x, θ̂ - θ⟩| <= c·√Σᵢ⟨x, qᵢ⟩²(vᵢ + l)/vᵢ² + b·√Σᵢ⟨x, qᵢ⟩²/vᵢ², with c the `radius`, b the `push`, l the `lift`.
class Belief {
  constructor(part) {
    checkKeys("a belief", part, "theta axes values radius push? lift?");
    const { theta, axes, values, radius, push = 0, lift = 0 } = part;
    const d = Array.isArray(theta) ? theta.length : 0;
    const square = Array.isArray(axes) && axes.length === d && axes.every((row) => isNumbers(row, d));
    demand(d > 0 && isNumbers(theta, d) && isNumbers(values, d) && square, "malformed", "the axes of a belief");
    demand(values.every((value) => value > 0), "malformed", "the values of a belief");
    const widths = [radius, push, lift].every((width) => isBelow(width, Infinity));
    demand(widths, "malformed", "the radius of a belief");
    this.dimension = d;
    this.theta = Float64Array.from(theta);
    this.columns = Array.from({ length: d }, (_, axis) => Float64Array.from(axes, (row) => row[axis]));
    this.first = Float64Array.from(values, (value) => ((radius * Math.sqrt(value + lift)) / value) ** 2);
    this.second = Float64Array.from(values, (value) => (push / value) ** 2);
    Object.freeze(this);
  }

  estimate(x) {
    return product(x, this.theta);
  }

  // How far ⟨x, θ⟩ can be from ⟨x, θ̂⟩.
  reach(x) {
    let [first, second] = [0, 0];
    for (let axis = 0; axis < this.dimension; axis += 1) {
      const along = product(x, this.columns[axis]);
      first += along * along * this.first[axis];
      second += along * along * this.second[axis];
    }
    return Math.sqrt(first) + Math.sqrt(second);
  }
}

// Certainty needs no draw.
const drawn = (share) => share === 1 || (share > 0 && happens(fraction(share)));

const largest = (scores) => scores.reduce((best, score, at) => (score > scores[best] ? at : best), 0);

// beliefs: of the parameter that all actions share, or of each action's own: the newest, then others that still say
// more in some direction. optimists: the share of devices that choose optimistically. exploration: scales how far an
// estimate is trusted to be off. blank: whether nothing is known yet; then every action is as likely. control: the
// share of users who play `single` instead, the action that is taken for the best one for everybody; while `blank` they
// are drawn all the same, and play like the others.
export class Rule {
  constructor({ beliefs, exploration = 1, optimists = 1, blank = false, control = 0, single = null }) {
    const known = Array.isArray(beliefs) && beliefs.length > 0 && beliefs.every((own) => Array.isArray(own) && own[0]);
    demand(known, "malformed", "the beliefs of a rule");
    this.beliefs = Object.freeze(beliefs.map((own) => own.map((part) => new Belief(part))));
    this.dimension = this.beliefs[0][0].dimension;
    const alike = this.beliefs.flat().every(({ dimension }) => dimension === this.dimension);
    demand(alike, "malformed", "beliefs of several dimensions");
    Object.assign(this, { exploration, optimists, blank, control, single });
    this.#check();
    Object.freeze(this);
  }

  static fromJSON(text) {
    const body = readJson("a rule", text, LONGEST_TEXT);
    checkKeys("a rule", body, "version beliefs exploration? optimists? blank? control? single?");
    demand(body.version === VERSION, "unsupported", `version ${body.version} of rules`);
    return new Rule(body);
  }

  #check() {
    const { exploration, optimists, blank, control, single } = this;
    demand(isBelow(exploration, Infinity) && exploration > 0, "malformed", `exploration = ${exploration}`);
    demand(Number.isFinite(optimists) && optimists > 0 && optimists <= 1, "malformed", `optimists = ${optimists}`);
    demand(isBelow(control, 1) && typeof blank === "boolean", "malformed", `control = ${control}, blank = ${blank}`);
    const most = this.shared ? undefined : this.beliefs.length - 1;
    const named = single === null ? blank || control === 0 : isWhole(single, 0, most);
    demand(named, "malformed", `single = ${single}, which the control share plays`);
  }

  // Whether all actions share one parameter.
  get shared() {
    return this.beliefs.length === 1;
  }

  // What each action is worth at best; at worst for who is not `hopeful`.
  scores(features, hopeful = true) {
    const sign = hopeful ? 1 : -1;
    const bound = (own, x) =>
      Math.min(...own.map((belief) => sign * belief.estimate(x) + this.exploration * belief.reach(x)));
    return this.#offered(features).map(([own, x]) => sign * bound(own, x));
  }

  // The estimated mean of each action, less what rewards are centred at.
  estimates(features) {
    return this.#offered(features).map(([[newest], x]) => newest.estimate(x));
  }

  // The number of the best action.
  choose(features) {
    return largest(this.scores(features));
  }

  // The same with the device's draws, {action, control}: whether it is hopeful, or in the control share; any action
  // while nothing is known.
  play(features) {
    if (this.blank) {
      const action = Number(below(BigInt(this.#offered(features).length)));
      return { action, control: drawn(this.control) };
    }
    const scores = this.scores(features, drawn(this.optimists));
    const isSingle = this.single === null || this.single < scores.length;
    if (!isSingle) throw notAllowed("single", this.single, `a whole number in [0, ${scores.length - 1}]`);
    const control = drawn(this.control);
    return { action: control ? this.single : largest(scores), control };
  }

  // For each action what is known of its parameter, and its features.
  #offered(features) {
    if (!this.shared) {
      const x = checkFeatures(features, this.dimension);
      return this.beliefs.map((own) => [own, x]);
    }
    const several = Array.isArray(features) && features.length > 0;
    if (!several) throw notAllowed("features", features, "a list of at least one action's feature vector");
    return features.map((x) => [this.beliefs[0], checkFeatures(x, this.dimension)]);
  }
}
