// What operators do at the page: log in and out, create experiments, operate them, and see who did what.
import { element, fetched, refusal } from "./pages.js";

const TEMPLATE = `name = "onboarding"
title = "Which onboarding do people finish?"
public = true
arms = ["plain", "tour"]
control = "plain"

[program]
kind = "comparison"
policy = "split"

[privacy]
trust = "two-servers"
epsilon = 1.0

[decision]
smallest_effect = 0.02
`;
let session = { operator: null };

export const operator = () => session.operator;

export async function look() {
  session = await fetched("/session");
  return session.operator;
}

// Everything that changes something shows what only this page can have read.
async function send(method, path, body) {
  const headers = { "content-type": "application/json", ...(session.csrf ? { "croupier-csrf": session.csrf } : {}) };
  const answer = await fetch(path, { method, headers, cache: "no-store", ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  if (!answer.ok) throw new Error(await refusal(answer));
  return answer.status === 204 ? null : answer.json();
}

const button = (text, act, more = {}) => {
  const made = element("button", { type: "button", ...more }, text);
  made.addEventListener("click", act);
  return made;
};

const field = (label, control) => element("p", { class: "field" }, element("label", { for: control.id }, label), control);

// A dialog with a form: what it does ends it, and what goes wrong is said in it.
function dialog(title, inside, actions) {
  const said = element("p", { class: "trouble", role: "alert", hidden: "" });
  const form = element("form", {}, element("h2", { id: "dialog-title" }, title), inside, said);
  const made = element("dialog", { "aria-labelledby": "dialog-title" }, form);
  const run = async (act) => {
    said.hidden = true;
    try {
      await act();
      made.close();
    } catch (error) {
      said.textContent = error.message;
      said.hidden = false;
    }
  };
  form.append(element("p", { class: "actions" }, actions.map(({ text, act }, i) => {
    const one = element("button", { type: i ? "button" : "submit" }, text);
    if (i) one.addEventListener("click", () => run(act));
    return one;
  }), button("Cancel", () => made.close())));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(actions[0].act);
  });
  made.addEventListener("close", () => made.remove());
  document.body.append(made);
  made.showModal();
}

function logIn(changed) {
  const name = element("input", { id: "login-name", name: "username", autocomplete: "username", autocapitalize: "none", spellcheck: "false" });
  const secret = element("input", { id: "login-secret", name: "password", type: "password", autocomplete: "current-password", required: "" });
  dialog("Log in", [field("Name", name), field("Password, or a text token", secret)], [{
    text: "Log in",
    act: async () => {
      session = await send("POST", "/session", { name: name.value.trim(), secret: secret.value.trim() });
      changed();
    },
  }]);
}

async function logOut(changed) {
  await send("DELETE", "/session");
  session = { operator: null };
  changed();
}

function create(changed) {
  const text = element("textarea", { id: "create-text", rows: "18", spellcheck: "false", autocomplete: "off" });
  text.value = TEMPLATE;
  const act = (start) => async () => {
    const made = await send("POST", "/experiments", { text: text.value, start });
    location.hash = made.name;
    changed();
  };
  dialog("A new experiment", [field("As TOML; its name, arms and promise cannot be changed later", text)],
    [{ text: "Create", act: act(false) }, { text: "Create and start", act: act(true) }]);
}

// The corner of the page: who is here, and what they may begin.
export function corner(changed) {
  if (!session.operator) return [button("Log in", () => logIn(changed), { id: "log-in" })];
  return [button("New experiment", () => create(changed), { id: "create" }), element("span", { id: "operator" }, session.operator), button("Log out", () => logOut(changed), { id: "log-out" })];
}

const asked = (state, body, changed) => async () => {
  await send("POST", `/experiments/${state.experiment}/operations`, body);
  changed();
};

function certain(title, words, act) {
  dialog(title, [element("p", {}, words)], [{ text: title, act }]);
}

const WHOLE = {
  created: ["start", "archive"],
  running: ["pause", "stop"],
  stalled: ["pause", "stop"],
  paused: ["resume", "stop"],
  finished: ["archive"],
  archived: [],
};
const FINAL = {
  stop: "It ends for good: nobody is dealt a turn any more, and what is in open batches is not used. What was learned stays.",
  archive: "It is put away: it can be read, and nothing more. Its name stays taken.",
  retire: "This arm is shown to nobody any more, for good.",
};
const named = (operation) => operation[0].toUpperCase() + operation.slice(1);

// What can be done with one experiment now; what cannot be taken back is asked twice.
export function operate(state, changed) {
  if (!session.operator) return [];
  const said = element("p", { class: "trouble", role: "alert", hidden: "" });
  const tried = (act) => () => act().then(() => { said.hidden = true; }, (error) => {
    said.textContent = error.message;
    said.hidden = false;
  });
  const ask = (body, about) => {
    const act = asked(state, body, changed);
    return body.operation in FINAL ? () => certain(`${named(body.operation)} ${about}`, FINAL[body.operation], act) : tried(act);
  };
  const whole = WHOLE[state.standing].map((operation) => button(named(operation), ask({ operation }, state.experiment), { "data-operation": operation }));
  const parts = [element("p", { class: "actions" }, whole)];
  const live = ["running", "stalled", "paused"].includes(state.standing);
  if (live && state.operations.retire === "arm") {
    const arm = element("select", { id: "operate-arm" }, state.arms.map((name, i) =>
      state.program.arms?.[i]?.active === false ? "" : element("option", { value: String(i) }, name)));
    const one = (operation) => button(named(operation), () => ask({ operation, arm: Number(arm.value) }, `“${state.arms[Number(arm.value)]}”`)(), { "data-arm-operation": operation });
    parts.push(element("p", { class: "actions" }, element("label", { for: "operate-arm" }, "Arm"), arm, ["pause", "resume", "retire"].map(one)));
  }
  if (live && state.operations.add === "name") {
    const name = element("input", { id: "operate-add", autocomplete: "off", maxlength: "200" });
    parts.push(element("p", { class: "actions" }, element("label", { for: "operate-add" }, "A new arm"), name,
      button("Add", () => tried(asked(state, { operation: "add", name: name.value.trim() }, changed))())));
  }
  if (live && state.operations.ramp === "shares" && state.program.shares) {
    const inputs = state.arms.map((name, i) => element("label", { class: "share-of" }, `${name} `,
      element("input", { type: "number", min: "0.01", step: "any", value: String(state.program.shares[i] ?? 1) })));
    const shares = () => Object.fromEntries(state.arms.map((name, i) => [name, Number(inputs[i].querySelector("input").value)]));
    parts.push(element("fieldset", {}, element("legend", {}, "Split users by these shares"), element("p", { class: "actions" }, inputs,
      button("Ramp", () => tried(asked(state, { operation: "ramp", shares: shares() }, changed))(), { "data-operation": "ramp" }))));
  }
  return [...parts, said];
}

export const audit = async () => (session.operator ? (await fetched("/audit")).audit : []);
