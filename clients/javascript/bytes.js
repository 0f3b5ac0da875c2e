// Bytes and the few ways in which docs/wire.md writes them.

import { Refused } from "./problems.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export const utf8 = (text) => encoder.encode(text);
export const text = (bytes) => decoder.decode(bytes);

export function concat(...parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

// A number in so many bytes, big-endian; BigInt, since a residue has 8 bytes and a double only 53 bits.
export function number(value, length) {
  let rest = BigInt(value);
  const bytes = new Uint8Array(length);
  for (let at = length - 1; at >= 0; at -= 1) {
    bytes[at] = Number(rest & 255n);
    rest >>= 8n;
  }
  if (rest !== 0n) throw new RangeError(`${value} does not fit into ${length} bytes`);
  return bytes;
}

// A double in its eight bytes, big-endian.
export function double(value) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setFloat64(0, value);
  return bytes;
}

export function base64(bytes) {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

// One text for the same bytes: a token or signature in other words is refused.
export function fromBase64(encoded) {
  if (typeof encoded !== "string" || !/^[A-Za-z0-9_-]*$/.test(encoded) || encoded.length % 4 === 1) {
    throw new Refused("malformed", "not base64 with the URL-safe alphabet");
  }
  const binary = atob(encoded.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  if (base64(bytes) !== encoded) throw new Refused("malformed", "not the base64 of any bytes");
  return bytes;
}

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const fromHex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));

export const random = (length) => crypto.getRandomValues(new Uint8Array(length));

export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
