// TurboSHAKE128 (RFC 9861), and XofTurboShake128 of draft-irtf-cfrg-vdaf on it: any number of bytes from a seed.

import { concat, number } from "./bytes.js";

export const SEED = 32; // bytes
const RATE = 168; // bytes of the state that take input and give output
const ROUNDS = 12;
const DOMAIN = 1;
const VERSION = 18; // of the draft
const word = (value) => BigInt.asUintN(64, value);

// The constants of the last rounds of Keccak-f[1600], by its shift register; the first of its 24 rounds are left out.
function roundConstants() {
  let register = 1;
  const bit = () => {
    const out = register & 1;
    register = register & 0x80 ? ((register << 1) ^ 0x171) & 0xff : register << 1;
    return out;
  };
  const constants = Array.from({ length: 24 }, () => {
    let value = 0n;
    for (let j = 0; j < 7; j += 1) if (bit()) value |= 1n << BigInt(2 ** j - 1);
    return value;
  });
  return constants.slice(-ROUNDS);
}

// [from, to, rotation] of the steps rho and pi, lane by lane (x + 5y).
function lanes() {
  const moved = [[0, 0, 0n]];
  for (let step = 0, x = 1, y = 0; step < 24; step += 1) {
    const [nextX, nextY] = [y, (2 * x + 3 * y) % 5];
    moved.push([x + 5 * y, nextX + 5 * nextY, BigInt((((step + 1) * (step + 2)) / 2) % 64)]);
    [x, y] = [nextX, nextY];
  }
  return moved;
}

const CONSTANTS = roundConstants();
const MOVED = lanes();
const FIVE = [0, 1, 2, 3, 4];
const rotated = (value, by) => word(value << by) | (value >> (64n - by));

function permute(state) {
  for (const constant of CONSTANTS) {
    const columns = FIVE.map((x) => state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]);
    const parity = FIVE.map((x) => columns[(x + 4) % 5] ^ rotated(columns[(x + 1) % 5], 1n));
    const moved = new BigUint64Array(25);
    for (const [from, to, by] of MOVED) moved[to] = rotated(state[from] ^ parity[from % 5], by);
    for (let at = 0; at < 25; at += 1) {
      const row = at - (at % 5);
      state[at] = moved[at] ^ (~moved[row + ((at + 1) % 5)] & moved[row + ((at + 2) % 5)]);
    }
    state[0] ^= constant;
  }
}

// The output for a message, in blocks of RATE bytes, without end.
export function* turboShake128(message, domain = DOMAIN) {
  const padded = new Uint8Array(Math.ceil((message.length + 1) / RATE) * RATE);
  padded.set(message);
  padded[message.length] = domain;
  padded[padded.length - 1] ^= 0x80;
  const state = new BigUint64Array(25);
  const input = new DataView(padded.buffer);
  for (let at = 0; at < padded.length; at += RATE) {
    for (let lane = 0; lane < RATE / 8; lane += 1) state[lane] ^= input.getBigUint64(at + 8 * lane, true);
    permute(state);
  }
  for (;;) {
    const block = new DataView(new ArrayBuffer(RATE));
    for (let lane = 0; lane < RATE / 8; lane += 1) block.setBigUint64(8 * lane, state[lane], true);
    yield new Uint8Array(block.buffer);
    permute(state);
  }
}

// What separates one use, in one algorithm and one context, from all others.
export const tagOf = (algorithm, usage, context) =>
  concat(Uint8Array.of(VERSION, 0), number(algorithm, 4), number(usage, 2), context);

// The output for a seed, a tag and whatever else the parties agree on.
export const stream = (seed, tag, binder = new Uint8Array(0)) =>
  turboShake128(concat(number(tag.length, 2).reverse(), tag, Uint8Array.of(seed.length), seed, binder));
