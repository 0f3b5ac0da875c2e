// What a device believes of an experiment: configurations that both servers signed, within its limits, and no others.

import { base64, fromBase64 } from "./bytes.js";
import { checkName, promiseOf, readConfiguration, verifyKeys } from "./configuration.js";
import { checkLimits } from "./limits.js";
import { demand } from "./problems.js";
import { LONGEST_TEXT } from "./reading.js";
import { checkPublic } from "./sealing.js";
import { SERVERS, checkSigned, hashOf, textOf } from "./statements.js";
import { pinnedOf } from "./turns.js";

export const addressOf = (server, name) => `${server.replace(/\/+$/, "")}/experiments/${name}`;

// `keys`: those of the servers that are pinned, or null.
export class Joining {
  known = new Map(); // the newest of each experiment, by name

  constructor({ analyzer, account, keys, requests }) {
    Object.assign(this, { analyzer, account, keys, requests });
  }

  // Fetches the experiment, checks its signatures and this device's limits, and remembers whom it trusts.
  async join(name, attempts) {
    checkName(name);
    const statement = await this.requests.send(addressOf(this.analyzer, name), {}, { attempts });
    const joined = await this.believe(name, statement);
    this.known.set(name, joined);
    return joined;
  }

  async believe(name, statement) {
    const configuration = readConfiguration(textOf("configuration", statement));
    demand(configuration.experiment === name, "malformed", `${configuration.experiment} instead of ${name}`);
    checkLimits(configuration, this.account.limits);
    const keys = verifyKeys(configuration);
    await checkSigned("configuration", statement, keys);
    for (const server of SERVERS) await checkPublic(fromBase64(configuration.keys[server].seal));
    const experiment = addressOf(this.analyzer, name);
    await this.account.trust(experiment, configuration, keys, promiseOf(configuration), this.keys);
    return { configuration, statement, hash: await hashOf("configuration", statement) };
  }

  // The configuration that an offer belongs to: another one than that joined while keys or addresses change.
  async offered(joined, wanted, front) {
    if (wanted === base64(joined.hash)) return joined;
    const { experiment: name } = joined.configuration;
    const found = await this.believe(name, await this.#byHash(front, wanted));
    if (found.configuration.revision > joined.configuration.revision) this.known.set(name, found);
    return found;
  }

  // What an offer's batches were first opened under, by hash: its own configuration, or earlier ones of the same
  // servers with the same promise.
  async pinned({ configuration, statement, hash }, offer) {
    const { experiment, revision, urls } = configuration;
    let length = 0;
    const pinned = new Map([[base64(hash), pinnedOf(statement.body)]]);
    for (const { pin } of offer.batches) {
      if (pinned.has(pin)) continue;
      const earlier = await this.#byHash(addressOf(urls.front, experiment), pin);
      await checkSigned("configuration", earlier, verifyKeys(configuration));
      const found = readConfiguration(textOf("configuration", earlier));
      const before = found.experiment === experiment && found.revision < revision;
      demand(before, "not-covered", `a batch is pinned to revision ${found.revision} of ${found.experiment}`);
      const same = promiseOf(found) === promiseOf(configuration);
      demand(same, "broken-promise", "a batch was opened under another promise");
      checkLimits(found, this.account.limits);
      await checkPublic(fromBase64(found.keys.analyzer.seal));
      pinned.set(pin, pinnedOf(earlier.body));
      length += earlier.body.length;
      // All of it is kept with the turn.
      demand(length <= LONGEST_TEXT, "not-covered", "earlier configurations that are too long together");
    }
    return pinned;
  }

  // A configuration as the front keeps it.
  async #byHash(front, wanted) {
    const statement = await this.requests.send(`${front}/configurations/${wanted}`);
    const same = wanted === base64(await hashOf("configuration", statement));
    demand(same, "not-covered", "another configuration than the one offered");
    return statement;
  }
}
