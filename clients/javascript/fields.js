// Residues and how they are written, the two prime fields of Prio3, and polynomials over them by their values.

import { inverse, power } from "./numbers.js";

const [WORD, GENERATOR] = [8, 7n];

// Whole numbers modulo `modulus`, each in eight bytes, or in sixteen where it does not fit, the least first.
export class Residues {
  constructor(modulus) {
    this.modulus = modulus;
    this.size = modulus <= 2n ** 64n ? WORD : 2 * WORD; // bytes of a number
    Object.freeze(this);
  }

  // The residue of a whole number, which may be negative.
  of(number) {
    const rest = number % this.modulus;
    return rest < 0n ? rest + this.modulus : rest;
  }

  less(numbers, others) {
    return numbers.map((number, at) => this.of(number - others[at]));
  }

  encode(numbers) {
    const view = new DataView(new ArrayBuffer(this.size * numbers.length));
    numbers.forEach((number, at) => {
      for (let from = 0; from < this.size; from += WORD) {
        view.setBigUint64(this.size * at + from, BigInt.asUintN(64, number >> BigInt(8 * from)), true);
      }
    });
    return new Uint8Array(view.buffer);
  }

  // So many uniform residues from a stream of bytes. Those that would make some likelier than others are passed over.
  uniform(read, length) {
    const whole = (2n ** BigInt(8 * this.size) / this.modulus) * this.modulus;
    const found = [];
    while (found.length < length) {
      const drawn = this.#word(read(this.size));
      if (drawn < whole) found.push(drawn % this.modulus);
    }
    return found;
  }

  #word(bytes) {
    const view = new DataView(bytes.buffer);
    let number = 0n;
    for (let from = this.size - WORD; from >= 0; from -= WORD) number = (number << 64n) | view.getBigUint64(from, true);
    return number;
  }
}

// Residues of a prime for which there are roots of unity of every order 2^k that is needed.
class Field extends Residues {
  inverse(number) {
    return inverse(number, this.modulus);
  }

  // 1, w, w², … where w has this order, a power of two.
  roots(order) {
    const root = power(GENERATOR, (this.modulus - 1n) / BigInt(order), this.modulus);
    const found = [1n];
    while (found.length < order) found.push(this.of(found.at(-1) * root));
    return found;
  }
}

export const FIELD64 = new Field(2n ** 64n - 2n ** 32n + 1n);
export const FIELD128 = new Field(2n ** 128n - 7n * 2n ** 66n + 1n);

const halves = (vector) => [0, 1].map((start) => vector.filter((_, at) => at % 2 === start));

// The values at these roots of unity of the polynomial with these coefficients, as many. The even and the odd ones make
// two polynomials of half the length, in the square of the point.
function transform(field, coefficients, roots) {
  if (roots.length === 1) return coefficients;
  const [squares] = halves(roots);
  const [even, odd] = halves(coefficients).map((half) => transform(field, half, squares));
  return roots.map((root, at) => field.of(even[at % even.length] + root * odd[at % odd.length]));
}

// A function from the values of a polynomial at the roots of this order to its values at those of twice the order that
// lie between them.
export function between(field, order) {
  const [roots, finer] = [field.roots(order), field.roots(2 * order)];
  const backwards = [roots[0], ...roots.slice(1).reverse()];
  const scale = field.inverse(BigInt(order));
  const turns = finer.slice(0, order).map((root) => field.of(root * scale));
  return (values) => {
    const coefficients = transform(field, values, backwards);
    return transform(field, coefficients.map((one, at) => field.of(one * turns[at])), roots);
  };
}
