// How things went: lines with bands, odds and traffic over time, as SVG without any library.
import { counted, drawn, element, number, percent, whole } from "./pages.js";
import { ticks } from "./pictures.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [52, 12, 8, 26];
const MANY = 24;
const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000];

const clockLike = { hour: "2-digit", minute: "2-digit" }, dayLike = { day: "numeric", month: "short" };

function timeLabel(seconds, step) {
  const when = new Date(1000 * seconds);
  if (step < 60) return when.toLocaleTimeString("en-GB");
  const midnight = when.getHours() === 0 && when.getMinutes() === 0;
  return step < 86400 && !midnight ? when.toLocaleTimeString("en-GB", clockLike) : when.toLocaleDateString("en-GB", dayLike);
}

// Round moments of the local clock, at most `wanted` of them.
function moments(from, to, wanted) {
  const step = STEPS.find((one) => (to - from) / one <= wanted) ?? STEPS[STEPS.length - 1];
  const shift = 60 * new Date(1000 * from).getTimezoneOffset();
  const found = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) found.push([at, timeLabel(at, step)]);
  return found;
}

// A frame with its axes; `low` and `high` are the ends of the vertical scale, `shown` says a value of it.
function frame({ points, width, height, low, high, shown, rules = 4 }) {
  const from = points[0].at, to = Math.max(points[points.length - 1].at, from + 1);
  const x = (at) => LEFT + ((width - LEFT - RIGHT) * (at - from)) / (to - from);
  const y = (value) => TOP + ((height - TOP - BOTTOM) * (high - Math.min(high, Math.max(low, value)))) / (high - low);
  const times = moments(from, to, (width - LEFT - RIGHT) / (to - from < 600 ? 90 : 64));
  const axes = [
    ticks(low, high, rules).map((tick) => [
      drawn("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
      drawn("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, shown(tick))]),
    times.map(([at, text]) => drawn("text", { x: Math.min(width - RIGHT - 16, Math.max(LEFT + 10, x(at))), y: height - 8, "text-anchor": "middle" }, text)),
  ];
  return { x, y, axes };
}

const svg = (width, height, said, ...inside) =>
  drawn("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said }, drawn("title", {}, said), inside);

const path = (pairs) => (pairs.length ? `M${pairs.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ")}` : "");

// One quantity with its band, at every look.
function line({ points, width, low, high, shown, said, zero }) {
  const height = 150;
  const known = points.filter((point) => point.value !== null && point.value !== undefined);
  const { x, y, axes } = frame({ points, width, height, low, high, shown, rules: 4 });
  const upper = known.map((point) => [x(point.at), y(point.upper ?? high)]), lower = known.map((point) => [x(point.at), y(point.lower ?? low)]);
  const middle = known.map((point) => [x(point.at), y(point.value)]);
  return svg(width, height, said, axes,
    zero ? drawn("line", { class: "zero", x1: LEFT, x2: width - RIGHT, y1: y(0), y2: y(0) }) : "",
    known.length > 1 ? drawn("path", { class: "ribbon", d: `${path([...upper, ...lower.reverse()])} Z` }) : "",
    known.length > 1 ? drawn("path", { class: "series", d: path(middle) }) : "",
    middle.length ? drawn("circle", { class: "point", cx: middle[middle.length - 1][0], cy: middle[middle.length - 1][1], r: 3.5 }) : "");
}

// Many small pictures on one scale: a picture each for what is compared.
export function multiples(series, { width, shown, zero = false, low = null, high = null }) {
  const across = width < 560 || series.length === 1 ? 1 : series.length === 2 || series.length === 4 ? 2 : 3;
  const each = Math.floor((width - 16 * (across - 1)) / across);
  const ends = series.flatMap((one) => one.points.slice(-Math.max(2, Math.ceil(one.points.length / 2)))).flatMap((point) => [point.lower ?? point.value, point.upper ?? point.value]).filter(Number.isFinite);
  const reach = Math.max(1e-9, ...ends.map(Math.abs));
  const bottom = low ?? (zero ? -1.1 * reach : Math.min(...ends, 0)), top = high ?? (zero ? 1.1 * reach : Math.max(...ends, bottom + 1e-9));
  return element("div", { class: "multiples", "data-across": String(across) }, series.slice(0, MANY).map((one) =>
    element("figure", {}, element("figcaption", {}, element("b", {}, one.name), " ", element("span", { class: "soft" }, one.now)),
      line({ points: one.points, width: each, low: bottom, high: top, shown, zero, said: `${one.name}: ${one.now}` }))),
  series.length > MANY ? element("p", { class: "soft" }, `The first ${MANY} of ${whole(series.length)}.`) : "");
}

// With what odds turns were dealt, one share above the other, from what was said until it was said anew.
export function shares(points, names, width) {
  const height = 170, { x, y, axes } = frame({ points, width, height, low: 0, high: 1, shown: (value) => percent(value), rules: 4 });
  const last = points[points.length - 1];
  const until = (i) => x(i + 1 < points.length ? points[i + 1].at : last.at);
  const below = points.map((point) => names.map((_, arm) => point.odds.slice(0, arm).reduce((sum, one) => sum + one, 0)));
  const bands = names.map((name, arm) => {
    const edge = (side) => points.flatMap((point, i) => [[x(point.at), y(below[i][arm] + side * (point.odds[arm] ?? 0))], [until(i), y(below[i][arm] + side * (point.odds[arm] ?? 0))]]);
    return drawn("path", { class: `share s${arm % 8}`, d: `${path([...edge(1), ...edge(0).reverse()])} Z` });
  });
  const said = `Of the turns that are dealt now: ${names.map((name, arm) => `${name} ${percent(last.odds[arm] ?? 0)}`).join(", ")}.`;
  return [svg(width, height, said, bands, axes),
    element("ul", { class: "legend" }, names.map((name, arm) => element("li", {}, element("span", { class: `swatch s${arm % 8}` }), `${name} ${percent(last.odds[arm] ?? 0)}`)))];
}

// Reports so far, and how many come lately.
export function traffic(points, width) {
  const height = 130, most = points[points.length - 1].reports;
  const { x, y, axes } = frame({ points, width, height, low: 0, high: Math.max(1, most), shown: (value) => number(value), rules: 3 });
  const corners = points.flatMap((point, i) => (i ? [[x(point.at), y(points[i - 1].reports)], [x(point.at), y(point.reports)]] : [[x(point.at), y(point.reports)]]));
  const first = points[Math.floor(points.length / 2)], last = points[points.length - 1];
  const hours = (last.at - first.at) / 3600;
  const rate = hours > 0.1 ? (last.reports - first.reports) / hours : 0;
  const lately = rate <= 0 ? "" : rate < 2 ? `, about ${number(24 * rate)} a day lately` : `, about ${number(rate)} an hour lately`;
  const said = `${counted(most, "report")} so far${lately}`;
  return [element("p", { class: "soft" }, `${said}.`), svg(width, height, said, axes, drawn("path", { class: "series", d: path(corners) }))];
}
