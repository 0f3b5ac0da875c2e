// Statements: texts that both servers sign. They are checked and hashed as the bytes that came.

import { concat, fromBase64, sha256, text, utf8 } from "./bytes.js";
import { demand } from "./problems.js";
import { LONGEST_TEXT } from "./reading.js";

export const SERVERS = ["analyzer", "front"];

async function isSigned(key, signature, message) {
  try {
    const imported = await crypto.subtle.importKey("raw", fromBase64(key), { name: "Ed25519" }, false, ["verify"]);
    return await crypto.subtle.verify({ name: "Ed25519" }, imported, fromBase64(signature), message);
  } catch (error) {
    demand(error.name !== "NotSupportedError", "unsupported", "this browser has no Ed25519");
    return false;
  }
}

// The statement's text, if it is one.
export function textOf(kind, statement) {
  const body = statement?.body;
  // Half a character would be signed as another text than the one that is read.
  const whole = typeof body === "string" && body.length <= LONGEST_TEXT && text(utf8(body)) === body;
  demand(whole && typeof statement.signatures === "object", "malformed", `no statement of a ${kind}`);
  return body;
}

export const hashOf = (kind, statement) => sha256(utf8(textOf(kind, statement)));

// Refuses a statement that not all of these servers signed with these keys, in base64.
export async function checkSigned(kind, statement, keys, signers = SERVERS) {
  const message = concat(utf8(`croupier/2 ${kind}`), new Uint8Array(1), utf8(textOf(kind, statement)));
  for (const server of signers) {
    const good = await isSigned(keys[server], statement.signatures?.[server], message);
    demand(good, "bad-signature", `the ${kind} is not signed by the ${server}`);
  }
}
