// What both pages share: making elements, and saying numbers in words.

// Text only ever enters a page as text.
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

export const minus = (text) => text.replace("-", "−");
export const whole = (value) => minus(Math.round(value).toLocaleString("en"));
export const counted = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

export function number(value, digits = 3) {
  if (value === null || value === undefined || value === Infinity) return "∞";
  if (value !== 0 && Math.abs(value) < 1e-3) {
    const [figure, power] = value.toExponential(1).split("e");
    const raised = [...String(Number(power))].map((sign) => RAISED[sign]).join("");
    return figure === "1.0" ? `10${raised}` : `${minus(figure)} × 10${raised}`;
  }
  return minus(value.toLocaleString("en", { maximumSignificantDigits: digits }));
}

// A long share of 100 % is never rounded up to certainty.
export function percent(share) {
  const value = 100 * share;
  return `${(value > 99.9 && value < 100 ? Math.floor(value * 100) / 100 : Math.round(value * 10) / 10).toLocaleString("en")}\u00a0%`;
}

// Differences of shares are said in points, others in the reward's own unit.
export function apart({ low, high }) {
  const span = high - low, binary = span === 1 && low === 0;
  const decimals = binary ? 1 : Math.max(0, 3 - Math.round(Math.log10(span)));
  const times = binary ? 100 : span;
  const said = (value, sign = false) => minus((times * value).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals, signDisplay: sign ? "exceptZero" : "auto" }));
  return { said, unit: binary ? " points" : "" };
}

const UNITS = [["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

export function duration(seconds) {
  const [name, length] = UNITS.find(([, long]) => seconds >= long && seconds % long === 0) || ["second", 1];
  const times = seconds / length;
  return times === 1 ? `one ${name}` : `${times.toLocaleString("en")} ${name}s`;
}

export function clock(at) {
  const when = new Date(at);
  const time = when.toLocaleTimeString("en-GB");
  const day = when.toDateString() === new Date().toDateString() ? "" : `${when.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} `;
  return element("time", { datetime: at, title: when.toLocaleString("en-GB", { dateStyle: "full", timeStyle: "long" }) }, day + time);
}

export function figures(rows) {
  return element("dl", { class: "figures" }, rows.map(([name, value, ...more]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value, more.map((one) => (typeof one === "string" ? element("small", {}, one) : one))))));
}

export function facts(rows) {
  return element("dl", { class: "facts" }, rows.flatMap(([name, ...said]) => [element("dt", {}, name), element("dd", {}, ...said)]));
}

// The roles stay when a narrow screen shows rows as cards.
export function table(label, headings, rows) {
  const heads = headings.map(({ text, kind = "" }) => element("th", { role: "columnheader", class: kind, scope: "col" }, text));
  const cell = (content, { kind = "", short = "" }) =>
    element("td", { role: "cell", class: kind, ...(short ? { "data-label": short } : {}) }, content);
  return element("table", { role: "table", "aria-label": label },
    element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, heads)),
    element("tbody", { role: "rowgroup" }, rows.map(({ kind = "", cells }) =>
      element("tr", { role: "row", class: kind }, cells.map((content, i) => cell(content, headings[i]))))));
}

export async function fetched(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
  return answer.json();
}

// Why something was refused, in the server's words.
export async function refusal(answer) {
  try {
    const problem = await answer.json();
    return problem.detail || problem.title;
  } catch {
    return `status ${answer.status}`;
  }
}
