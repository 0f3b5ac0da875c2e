// HPKE (RFC 9180), base mode, one shot: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. This is suite 1 of
// docs/wire.md and the only one that WebCrypto can do without further code. Nothing is sent as associated data.

import { concat, number, utf8 } from "./bytes.js";
import { Refused } from "./problems.js";

export const SUITE = { name: "x25519-aes128gcm", number: 1, keyLength: 32, overhead: 48 };

const KEM = utf8("KEM\x00\x20");
const HPKE = utf8("HPKE\x00\x20\x00\x01\x00\x01");
const VERSION = utf8("HPKE-v1");
const NOTHING = new Uint8Array(0);
const { subtle } = globalThis.crypto ?? {}; // missing where a page came neither by https nor from this machine

const labelled = (suite, label, input) => concat(VERSION, suite, utf8(label), input);

// RFC 9180's LabeledExtract alone. HMAC makes a key of zeros of an empty salt, and browsers refuse an empty key.
async function extract(suite, label, input) {
  const key = await subtle.importKey("raw", new Uint8Array(32), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", key, labelled(suite, label, input)));
}

// LabeledExtract and then LabeledExpand, once for each [label, info, length]: WebCrypto's HKDF does both in one step.
async function derive(suite, salt, extractLabel, input, wanted) {
  const key = await subtle.importKey("raw", labelled(suite, extractLabel, input), "HKDF", false, ["deriveBits"]);
  const expand = async ([label, context, length]) => {
    const info = concat(number(length, 2), labelled(suite, label, context));
    return new Uint8Array(await subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info }, key, 8 * length));
  };
  return Promise.all(wanted.map(expand));
}

async function keySchedule(info) {
  const hashes = await Promise.all([extract(HPKE, "psk_id_hash", NOTHING), extract(HPKE, "info_hash", info)]);
  return concat(new Uint8Array(1), ...hashes); // mode 0: base
}

async function cipher(privateKey, theirs, encapsulated, receiver, schedule, use) {
  const secret = new Uint8Array(await subtle.deriveBits({ name: "X25519", public: theirs }, privateKey, 256));
  const both = concat(encapsulated, receiver);
  const [shared] = await derive(KEM, NOTHING, "eae_prk", secret, [["shared_secret", both, 32]]);
  const wanted = [["key", schedule, 16], ["base_nonce", schedule, 12]];
  const [key, nonce] = await derive(HPKE, shared, "secret", NOTHING, wanted);
  return [await subtle.importKey("raw", key, "AES-GCM", false, [use]), nonce];
}

async function importPublic(bytes) {
  try {
    return await subtle.importKey("raw", bytes, { name: "X25519" }, true, []);
  } catch (error) {
    if (error.name === "NotSupportedError") throw new Refused("unsupported", "this browser has no X25519");
    throw new Refused("malformed", "a sealing key");
  }
}

// Refuses what nothing could be sealed to, before a turn is taken.
export const checkPublic = async (bytes) => void (await importPublic(bytes));

// A function that seals any number of plaintexts to one key under one info, each with a fresh encapsulation; only a
// vector names the ephemeral key pair.
export async function sealer(publicBytes, info) {
  const [receiver, schedule] = await Promise.all([importPublic(publicBytes), keySchedule(info)]);
  return async (plaintext, ephemeral, additionalData = NOTHING) => {
    const pair = ephemeral ?? (await subtle.generateKey({ name: "X25519" }, true, ["deriveBits"]));
    const encapsulated = new Uint8Array(await subtle.exportKey("raw", pair.publicKey));
    const [key, iv] = await cipher(pair.privateKey, receiver, encapsulated, publicBytes, schedule, "encrypt");
    const sealed = await subtle.encrypt({ name: "AES-GCM", iv, additionalData }, key, plaintext);
    return concat(encapsulated, new Uint8Array(sealed));
  };
}

// What a server does; here for the vectors.
export async function open(pair, info, ciphertext) {
  const encapsulated = ciphertext.slice(0, SUITE.keyLength);
  const own = new Uint8Array(await subtle.exportKey("raw", pair.publicKey));
  const [sender, schedule] = await Promise.all([importPublic(encapsulated), keySchedule(info)]);
  const [key, iv] = await cipher(pair.privateKey, sender, encapsulated, own, schedule, "decrypt");
  return new Uint8Array(await subtle.decrypt({ name: "AES-GCM", iv }, key, ciphertext.slice(SUITE.keyLength)));
}
