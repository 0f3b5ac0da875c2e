// TurboSHAKE128 (RFC 9861), and XofTurboShake128 of draft-irtf-cfrg-vdaf on it: any number of bytes from a seed.
//
// The state of Keccak is 25 lanes of 64 bits, lane x + 5y, each as two halves of 32 bits, the lower first: BigInts
// would take ten times as long.

import { concat, number } from "./bytes.js";

export const SEED = 32; // bytes
const RATE = 168; // bytes of the state that take input and give output
const ROUNDS = 12;
const DOMAIN = 1;
const VERSION = 18; // of the draft

// The constants of the last rounds of Keccak-f[1600], by its shift register; the first of its 24 rounds are left out.
function roundConstants() {
  let register = 1;
  const bit = () => {
    const out = register & 1;
    register = register & 0x80 ? ((register << 1) ^ 0x171) & 0xff : register << 1;
    return out;
  };
  const constants = Array.from({ length: 24 }, () => {
    const halves = [0, 0];
    for (let j = 0; j < 7; j += 1) if (bit()) halves[j < 6 ? 0 : 1] |= 1 << ((2 ** j - 1) % 32);
    return halves;
  });
  return constants.slice(-ROUNDS);
}

// [from, to, rotation, which half is the lower one after it] of the steps rho and pi.
function lanes() {
  const moved = [[0, 0, 0, 0]];
  for (let step = 0, x = 1, y = 0; step < 24; step += 1) {
    const [nextX, nextY] = [y, (2 * x + 3 * y) % 5];
    const by = (((step + 1) * (step + 2)) / 2) % 64;
    moved.push([2 * (x + 5 * y), 2 * (nextX + 5 * nextY), by % 32, by < 32 ? 0 : 1]);
    [x, y] = [nextX, nextY];
  }
  return moved;
}

const CONSTANTS = roundConstants();
const MOVED = lanes();

// Two shifts, since a shift by 32 is none.
const rotated = (high, low, by) => (high << by) | (low >>> 1 >>> (31 - by));

function permute(state) {
  const [columns, moved] = [new Int32Array(10), new Int32Array(50)];
  for (const [low, high] of CONSTANTS) {
    for (let at = 0; at < 10; at += 1) {
      columns[at] = state[at] ^ state[at + 10] ^ state[at + 20] ^ state[at + 30] ^ state[at + 40];
    }
    for (const [from, to, by, half] of MOVED) {
      const column = from % 10;
      const [left, right] = [(column + 8) % 10, (column + 2) % 10];
      const lower = state[from] ^ columns[left] ^ rotated(columns[right], columns[right + 1], 1);
      const upper = state[from + 1] ^ columns[left + 1] ^ rotated(columns[right + 1], columns[right], 1);
      moved[to + half] = rotated(lower, upper, by);
      moved[to + 1 - half] = rotated(upper, lower, by);
    }
    for (let at = 0; at < 50; at += 1) {
      const row = at - (at % 10);
      state[at] = moved[at] ^ (~moved[row + ((at + 2) % 10)] & moved[row + ((at + 4) % 10)]);
    }
    state[0] ^= low;
    state[1] ^= high;
  }
}

// The output for a message: a function that gives its next bytes, so many at each call.
export function turboShake128(message, domain = DOMAIN) {
  const padded = new Uint8Array(Math.ceil((message.length + 1) / RATE) * RATE);
  padded.set(message);
  padded[message.length] = domain;
  padded[padded.length - 1] ^= 0x80;
  const state = new Int32Array(50);
  const input = new DataView(padded.buffer);
  for (let at = 0; at < padded.length; at += RATE) {
    for (let half = 0; half < RATE / 4; half += 1) state[half] ^= input.getInt32(at + 4 * half, true);
    permute(state);
  }
  let given = 0; // of the state as it is
  const next = () => {
    if (given === RATE) permute(state);
    given %= RATE;
    given += 1;
    return state[(given - 1) >> 2] >>> (8 * ((given - 1) % 4));
  };
  return (length) => Uint8Array.from({ length }, next);
}

// What separates one use, in one algorithm and one context, from all others.
export const tagOf = (algorithm, usage, context) =>
  concat(Uint8Array.of(VERSION, 0), number(algorithm, 4), number(usage, 2), context);

// The output for a seed, a tag and whatever else the parties agree on.
export const stream = (seed, tag, binder = new Uint8Array(0)) =>
  turboShake128(concat(number(tag.length, 2).reverse(), tag, Uint8Array.of(seed.length), seed, binder));
