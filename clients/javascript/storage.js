// Where an account lies. `change(update)` reads, changes and writes as one step that no other tab comes between.
//
// Not localStorage: tabs of one site may be different processes, each with a copy of it that is brought up to date some
// time later, whatever lock they hold. And nothing says when it is on the disk.

// For as long as the page lives.
export class Memory {
  #value;

  async read() {
    return this.#value;
  }

  async change(update) {
    this.#value = update(this.#value);
    return this.#value;
  }
}

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

const TABLE = "accounts";

// For as long as the browser keeps the site's data; a change is on the disk when it is done.
export class Kept {
  #database;

  constructor(name = "croupier") {
    this.name = name;
  }

  async read() {
    return done((await this.#transaction()).objectStore(TABLE).get(this.name));
  }

  async change(update) {
    const transaction = await this.#transaction("readwrite", { durability: "strict" });
    const ended = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
    ended.catch(() => {}); // whoever waits for it is told; an abort below is thrown as what caused it
    const table = transaction.objectStore(TABLE);
    let changed;
    try {
      changed = update(await done(table.get(this.name)));
      table.put(changed, this.name);
    } catch (error) {
      transaction.abort();
      throw error;
    }
    await ended;
    return changed;
  }

  // A connection may have ended since it was opened, when a user cleared the site's data, say.
  async #transaction(...way) {
    const database = await this.#opened();
    try {
      return database.transaction(TABLE, ...way);
    } catch (error) {
      if (error.name !== "InvalidStateError") throw error;
      this.#database = undefined;
      return (await this.#opened()).transaction(TABLE, ...way);
    }
  }

  // Once for all that is read and written. A connection that ended is opened anew by whoever comes next.
  #opened() {
    this.#database ??= this.#open().catch((error) => {
      this.#database = undefined;
      throw error;
    });
    return this.#database;
  }

  async #open() {
    askToKeep();
    const request = indexedDB.open("croupier", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
    const database = await done(request);
    const forget = () => (this.#database = undefined);
    database.onclose = forget;
    database.onversionchange = () => (database.close(), forget());
    return database;
  }
}

// A browser that is short of room deletes what it was not asked to keep, and with it what was spent. It may ask the
// user first, so nobody waits for its answer.
const askToKeep = () => void globalThis.navigator?.storage?.persist?.().catch(() => {});
