// Pictures of intervals, sums and counts, as SVG without any library.
import { drawn, number, whole } from "./pages.js";

const share = (value, low, high) => `${100 * Math.min(1, Math.max(0, (value - low) / (high - low)))}%`;

// An estimate and its interval on the scale from 0 to 1.
export function interval(arm, said) {
  const left = 100 * Math.max(0, arm.lower);
  const width = Math.max(0.5, 100 * Math.min(1, arm.upper) - left);
  return drawn("svg", { class: "interval", height: 20, role: "img", "aria-label": said },
    drawn("title", {}, said),
    drawn("line", { x1: "0%", x2: "100%", y1: 10, y2: 10 }),
    drawn("rect", { class: "range", x: `${left}%`, width: `${width}%`, y: 6, height: 8, rx: 2 }),
    drawn("circle", { class: "point", cx: share(arm.mean, 0, 1), cy: 10, r: 5 }));
}

// A difference and its interval, on a scale from -reach to reach with nothing in the middle.
export function difference(value, lower, upper, reach, said) {
  const at = (one, otherwise) => share(Number.isFinite(one) ? one : otherwise, -1.05 * reach, 1.05 * reach);
  const left = parseFloat(at(lower, -reach)), right = parseFloat(at(upper, reach));
  return drawn("svg", { class: "interval", height: 20, role: "img", "aria-label": said },
    drawn("title", {}, said),
    drawn("line", { x1: "0%", x2: "100%", y1: 10, y2: 10 }),
    drawn("line", { class: "zero", x1: "50%", x2: "50%", y1: 0, y2: 20 }),
    drawn("rect", { class: "range", x: `${left}%`, width: `${Math.max(0.5, right - left)}%`, y: 6, height: 8, rx: 2 }),
    drawn("circle", { class: "point", cx: at(value, 0), cy: 10, r: 5 }));
}

// A count with its error: the bar, and a line as far as the truth may be off.
export function bar(count, radius, most, said) {
  return drawn("svg", { class: "bar-row", height: 20, role: "img", "aria-label": said },
    drawn("title", {}, said),
    drawn("line", { class: "axis", x1: 0, x2: 0, y1: 0, y2: 20 }),
    drawn("rect", { class: "bar", x: 0, width: share(count, 0, most), y: 3, height: 14, rx: 2 }),
    drawn("line", { class: "whisker", x1: share(count - radius, 0, most), x2: share(count + radius, 0, most), y1: 10, y2: 10 }));
}

// Round steps of 1, 2 or 5 times a power of ten, about `wanted` of them.
export function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1e6; tick += step) found.push(Math.abs(tick) < step / 1e6 ? 0 : tick);
  return found;
}

// The running sum after so many people, as steps within the band that holds the truth.
export function sums(points, planned, width) {
  const [left, right, top, bottom, height] = [54, 14, 10, 40, 260];
  const steps = [[0, 0, points[0][2]], ...points];
  const low = Math.min(...steps.map(([, value, bound]) => value - bound)), high = Math.max(...steps.map(([, value, bound]) => value + bound));
  const x = (users) => left + ((width - left - right) * users) / planned;
  const y = (value) => top + ((height - top - bottom) * (high - value)) / (high - low);
  const at = (i, side) => y(steps[i][1] + side * steps[i][2]);
  const path = (side) => steps.map(([users], i) =>
    i === 0 ? `${x(users)},${at(i, side)}` : `${x(users)},${at(i - 1, side)} ${x(users)},${at(i, side)}`);
  const band = `M${path(1).join(" ")} L${path(-1).reverse().map((pair) => pair.split(" ").reverse().join(" ")).join(" ")} Z`;
  const [last, value, bound] = steps[steps.length - 1];
  const said = `The sum after ${whole(last)} people is ${whole(value)}, off by at most ${whole(bound)}.`;
  return drawn("svg", { class: "sums", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said },
    drawn("title", {}, said),
    ticks(low, high, 5).map((tick) => [
      drawn("line", { class: "axis", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
      drawn("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, number(tick, 6))]),
    ticks(0, planned, width < 500 ? 3 : 6).map((tick) =>
      drawn("text", { x: x(tick), y: height - bottom + 18, "text-anchor": tick > 0.95 * planned ? "end" : "middle" }, whole(tick))),
    drawn("path", { class: "band", d: band }),
    drawn("path", { class: "curve", d: `M${path(0).join(" ")}` }),
    drawn("circle", { class: "point", cx: x(last), cy: y(value), r: 4 }),
    drawn("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "people who reported"));
}
