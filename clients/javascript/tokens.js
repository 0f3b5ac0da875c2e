// Blind tokens: an issuer signs one without seeing it, and neither issuer nor front can tell later whose it was.
// Privacy Pass, token type 2 (RFC 9577, 9578), with blind RSA (RFC 9474): RSABSSA-SHA384-PSS-Deterministic.
//
//   const request = await tokenRequest(await client.join("onboarding"));
//   const answer = await fetch(ISSUER, { method: "POST", headers: request.headers, body: request.body });
//   const ticket = await request.finish(new Uint8Array(await answer.arrayBuffer()));
//   const turn = await client.play("onboarding", { ticket });

import { base64, concat, fromBase64, fromHex, hex, number, random, sha256, utf8 } from "./bytes.js";
import { inverse, power } from "./numbers.js";
import { demand } from "./problems.js";

const TYPE = Uint8Array.of(0, 2);
const ZERO = new Uint8Array(1);
const EXPONENT = 65537n;
const [SIZE, HASH, SALT] = [256, 48, 48]; // bytes of a signature, of a hash, of a salt

// A public key is DER all around its modulus: RSASSA-PSS with SHA-384, MGF1 and a salt of 48 bytes, exponent 65537.
const BEFORE = "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d010108" +
  "300b0609608648016503040202a2030201300382010f003082010a0282010100";
const AFTER = "0203010001";

const toNumber = (bytes) => BigInt(`0x${hex(bytes)}`);
const sha384 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-384", bytes));

// The modulus of an issuer's key, or a refusal of any other form.
export function readTokenKey(bytes) {
  const digits = hex(bytes);
  const whole = bytes.length === BEFORE.length / 2 + SIZE + AFTER.length / 2;
  demand(whole && digits.startsWith(BEFORE) && digits.endsWith(AFTER), "malformed", "the issuer's key");
  const modulus = toNumber(fromHex(digits.slice(BEFORE.length, -AFTER.length)));
  demand(modulus >> 2047n === 1n && modulus & 1n, "malformed", "the issuer's modulus");
  return modulus;
}

// A uniform number that has an inverse, and that inverse.
function unit(modulus) {
  for (;;) {
    const factor = toNumber(random(SIZE));
    const undone = factor > 0n && factor < modulus ? inverse(factor, modulus) : null;
    if (undone !== null) return [factor, undone];
  }
}

// EMSA-PSS-ENCODE (RFC 8017, 9.1.1) with SHA-384, for 2048 bits.
async function encode(message, salt) {
  const digest = await sha384(concat(new Uint8Array(8), await sha384(message), salt));
  const space = SIZE - HASH - 1;
  const block = concat(new Uint8Array(space - SALT - 1), Uint8Array.of(1), salt);
  const counters = Array.from({ length: Math.ceil(space / HASH) }, (_, at) => sha384(concat(digest, number(at, 4))));
  const mask = concat(...(await Promise.all(counters)));
  const masked = block.map((byte, at) => byte ^ mask[at]);
  masked[0] &= 0x7f; // the highest bit of 2048
  return concat(masked, digest, Uint8Array.of(0xbc));
}

async function isSignature(modulus, message, signature) {
  const jwk = { kty: "RSA", alg: "PS384", ext: true, n: base64(number(modulus, SIZE)), e: base64(number(EXPONENT, 3)) };
  const key = await crypto.subtle.importKey("jwk", jwk, { name: "RSA-PSS", hash: "SHA-384" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "RSA-PSS", saltLength: SALT }, key, signature, message);
}

// The bytes of a TokenChallenge (RFC 9577, 2.1).
export const challengeOf = (issuerName, context, origins) =>
  concat(TYPE, number(issuerName.length, 2), issuerName, number(context.length, 1), context,
    number(origins.length, 2), origins);

// What a token of one experiment at one front answers. Computed from what both servers signed and never taken from a
// server: a challenge of its own for each user would tell them apart.
export async function challenge(issuer, experiment, front) {
  const context = await sha256(concat(utf8("croupier/2 admission"), ZERO, utf8(experiment), ZERO, front));
  return challengeOf(utf8(base64(await sha256(issuer))), context, new Uint8Array(0));
}

// A token on its way: `body` goes to the issuer with `headers`, and `finish` makes the token of its answer. Only a
// vector gives nonce, salt and factor.
export async function blindRequest(issuer, asked, { nonce = random(32), salt = random(SALT), factor: given } = {}) {
  const modulus = readTokenKey(issuer);
  const keyId = await sha256(issuer);
  const said = concat(TYPE, nonce, await sha256(asked), keyId);
  const encoded = toNumber(await encode(said, salt));
  const [factor, undone] = given ? [toNumber(given), inverse(toNumber(given), modulus)] : unit(modulus);
  const coprime = undone !== null && inverse(encoded, modulus) !== null;
  demand(coprime, "malformed", "a number that shares a factor with the key");
  const blinded = (encoded * power(factor, EXPONENT, modulus)) % modulus;
  return {
    body: concat(TYPE, keyId.slice(-1), number(blinded, SIZE)),
    headers: { "content-type": "application/private-token-request", accept: "application/private-token-response" },
    async finish(answer) {
      demand(answer.length === SIZE, "bad-answer", `the issuer's answer has ${answer.length} bytes`);
      const signature = number((toNumber(answer) * undone) % modulus, SIZE);
      const good = await isSignature(modulus, said, signature);
      demand(good, "bad-answer", "the issuer's answer is no signature of what was sent");
      return concat(said, signature);
    },
  };
}

// Begins a token for an experiment that was joined and admits by tokens. An app that knows the issuer's key, in base64,
// gives it too: then not even both servers and the issuer together can have users with keys of their own.
export async function tokenRequest({ configuration }, { issuer: known } = {}) {
  const { admission, experiment, keys } = configuration;
  demand(admission.kind === "tokens", "malformed", `${experiment} admits ${admission.kind}, not by tokens`);
  demand(known === undefined || known === admission.issuer, "bad-signature", "another issuer's key than the app knows");
  const issuer = fromBase64(admission.issuer);
  return blindRequest(issuer, await challenge(issuer, experiment, fromBase64(keys.front.verify)));
}
