// What a device reports for a linear bandit: feature times reward, and the feature's outer product, as one vector.
//
//   new Moments({ features: 2 }).of([0.6, Math.SQRT1_2], 1); // [0.3, 0.35…, 0.36, 0.6, 0.5]
//
// The vector is (w·xz, the triangle of xxᵀ), with z = y - ½ where rewards are centred and z = y where not. Entries off
// the diagonal are multiplied with √2. With actions that have parameters of their own there is a place for each, and
// all but the played action's are zero. How far two users' vectors can be apart follows from that alone:
//
//   ‖v - v'‖² <= 2 + 2w²a² + w⁴a⁴/2, with |z| <= a.

import { checkFeatures, product } from "./features.js";
import { demand, notAllowed } from "./problems.js";
import { checkKeys, isWhole } from "./reading.js";

const COUNTED = Math.sqrt(0.75); // how the count of the control share is weighed beside its rewards
const LEAST = 2 ** -20; // no weight is less: else what is computed of a vector could vanish, for some users
const MOST_NUMBERS = 100_000; // of a report
const SAFE = 1 + 1e-8; // distances are rounded up by this, for what floating-point numbers leave open
const SLACK = 1e-9; // what rounding may do to a user's vector
const [CONSTANT, NEAR] = [Math.sqrt(0.5), 1e-6];

const isBetween = (value, low, high) => Number.isFinite(value) && value >= low && value <= high;

// features: the numbers of a feature vector. places: parameters that they belong to, one that all actions share, or one
// for each action. weight: how much of the budget the rewards have. centred: whether rewards count less ½; then the
// last feature is the constant √½. control: the weight of the rewards and the count of a control share; 0 without one.
export class Moments {
  constructor({ features, places = 1, weight = 1, centred = true, control = 0 }) {
    demand(isWhole(features, 1) && isWhole(places, 1), "malformed", `${features} features, ${places} places`);
    demand(typeof centred === "boolean", "malformed", `centred = ${centred}`);
    Object.assign(this, { features, places, weight, centred, control, most: centred ? 0.5 : 1 });
    demand(this.dimension <= MOST_NUMBERS, "malformed", `${this.dimension} numbers, and ${MOST_NUMBERS} are most`);
    demand(isBetween(weight, LEAST, 1 / this.most), "malformed", `weight = ${weight}`);
    const counted = control === 0 || (centred && isBetween(control, LEAST, 1));
    demand(counted, "malformed", `control = ${control}`);
    Object.freeze(this);
  }

  // As a mechanism names it.
  static fromValues({ kind, ...values }) {
    checkKeys("moments", values, "features places weight centred control");
    return new Moments(values);
  }

  // Numbers of one place: d of xz and d(d+1)/2 of the triangle.
  get own() {
    return (this.features * (this.features + 3)) / 2;
  }

  get dimension() {
    return this.places * this.own + this.#counts;
  }

  get #counts() {
    return this.control ? 2 : 0;
  }

  // In how many numbers two users can differ.
  get #differing() {
    return Math.min(this.places, 2) * this.own + this.#counts;
  }

  // How far two users' vectors can be apart.
  get diameter() {
    const pull = (this.weight * this.most) ** 2; // at most one
    return Math.sqrt(2 + 2 * pull + (pull * pull) / 2 + this.control * this.control) * SAFE;
  }

  // The same in the sum of absolute differences: at most √(numbers that differ) times the distance, nor more than twice
  // the largest sum of absolute values, which is where all |xᵢ| are 1/√d.
  get taxicab() {
    const d = this.features;
    const longest = this.weight * this.most * Math.sqrt(d) + 1 + (d - 1) / Math.sqrt(2);
    const control = (this.most + COUNTED) * this.control;
    return Math.min(Math.sqrt(this.#differing) * this.diameter, (2 * longest + control) * SAFE);
  }

  // How far two users' encoded vectors can be apart, by length and by the sum of absolute differences. Numbers that can
  // differ do so by one more at most when they are rounded, and the others are whole levels where their middle is one.
  reach(precision) {
    const rounded = precision % 2 === 0 ? this.#differing : this.dimension;
    const levels = precision / 2;
    return { l2: levels * this.diameter + Math.sqrt(rounded), l1: levels * this.taxicab + rounded };
  }

  // The vector of a user: features, reward, place, and whether they are in the control share.
  of(features, reward, place = 0, control = false) {
    const x = this.#checked(features);
    const y = typeof reward === "boolean" ? Number(reward) : reward;
    if (!isBetween(y, 0, 1)) throw notAllowed("rewards", reward, "numbers in [0, 1]");
    const most = this.places - 1;
    if (!isWhole(place, 0, most)) throw notAllowed("place", place, `a whole number in [0, ${most}]`);
    const z = this.centred ? y - 0.5 : y;
    const whole = Array(this.dimension).fill(0);
    [...x.map((number) => this.weight * z * number), ...triangle(x)].forEach((number, at) => {
      whole[place * this.own + at] = number;
    });
    if (this.control && control) whole.splice(-2, 2, this.control * z, COUNTED * this.control);
    return whole;
  }

  // Each number moved from [-1, 1] to [0, 1]. What is no user's vector is refused, since it could lie further.
  unit(vector) {
    const isSized = Array.isArray(vector) && vector.length === this.dimension;
    if (!isSized) throw notAllowed("value", vector?.length, `a vector of ${this.dimension} numbers`);
    const isUsers = vector.every((number) => Number.isFinite(number)) && this.#isUsers(vector);
    if (!isUsers) throw notAllowed("value", "another vector", "the moments of one user: features of norm at most 1");
    return vector.map((number) => (number + 1) / 2);
  }

  #isUsers(vector) {
    const places = Array.from({ length: this.places }, (_, at) => vector.slice(at * this.own, (at + 1) * this.own));
    const used = places.filter((place) => place.some((number) => number !== 0));
    return used.length <= 1 && used.every((place) => this.#isPlace(place)) && this.#isCounted(vector);
  }

  // A matrix M of rank one with M² = (tr M)M, and xz along it.
  #isPlace(place) {
    const d = this.features;
    const pulled = place.slice(0, d).map((number) => number / this.weight);
    const matrix = square(place.slice(d), d);
    const trace = matrix.reduce((sum, row, at) => sum + row[at], 0);
    const isMultiple = (vector) =>
      matrix.every((row, at) => Math.abs(product(row, vector) - trace * vector[at]) <= SLACK);
    const isShort = product(pulled, pulled) - this.most ** 2 * trace <= SLACK;
    return trace >= -SLACK && trace <= 1 + SLACK && isShort && isMultiple(pulled) && matrix.every(isMultiple);
  }

  #isCounted(vector) {
    if (!this.control) return true;
    const [reward, count] = [vector.at(-2) / this.control, vector.at(-1) / (COUNTED * this.control)];
    const whole = count > 0.5 ? 1 : 0;
    return Math.abs(count - whole) <= SLACK && Math.abs(reward) <= this.most * whole + SLACK;
  }

  #checked(features) {
    const x = [...checkFeatures(features, this.features)];
    const constant = !this.centred || Math.abs(x.at(-1) - CONSTANT) <= NEAR;
    if (!constant) throw notAllowed("features", x.at(-1), "√½ in the last place, where rewards are centred");
    return x;
  }
}

// xxᵀ, row by row from the diagonal on, as long as the matrix.
const triangle = (x) =>
  x.flatMap((one, row) => x.slice(row).map((other, at) => (at ? Math.SQRT2 : 1) * one * other));

// The matrix whose triangle this is.
function square(triangular, d) {
  const matrix = Array.from({ length: d }, () => Array(d).fill(0));
  let at = 0;
  for (let row = 0; row < d; row += 1) {
    for (let column = row; column < d; column += 1, at += 1) {
      matrix[row][column] = matrix[column][row] = triangular[at] / (row === column ? 1 : Math.SQRT2);
    }
  }
  return matrix;
}
