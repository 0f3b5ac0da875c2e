// What vectors cost that have noise in every number: a δ from bounds on their Rényi divergence, which add up.

import { fraction, toDouble } from "./numbers.js";
import { demand } from "./problems.js";

const TENTHS = Array.from({ length: 9 }, (_, k) => 1 + (k + 1) / 10);
const WHOLE = Array.from({ length: 62 }, (_, k) => k + 2);
const ORDERS = [...TENTHS, ...WHOLE, ...Array.from({ length: 9 }, (_, k) => 2 ** (k + 6))];

// Of Skellam noise of variance σ² in each number, which one user moves by Δ₂ in length and by Δ₁ in all, at a whole
// order α >= 2: αΔ₂²/2σ² + min{((2α-1)Δ₂² + 6Δ₁)/4σ⁴, 3Δ₁/2σ²}. Other orders take the next whole one, since the
// divergence grows with the order. Laplace noise is purely private: min{ε, ½αε²}.
const BOUNDS = {
  Skellam({ sigma2 }, { l2, l1 }, order) {
    const [alpha, v] = [Math.max(2, Math.ceil(order)), toDouble(fraction(sigma2))];
    const excess = Math.min(((2 * alpha - 1) * l2 * l2 + 6 * l1) / (4 * v * v), (3 * l1) / (2 * v));
    return (alpha * l2 * l2) / (2 * v) + excess;
  },
  DiscreteLaplace({ scale }, { l1 }, order) {
    const pure = Math.floor(l1) / toDouble(fraction(scale));
    return Math.min(pure, (order * pure * pure) / 2);
  },
};

// The δ of vectors at ε: at every order e^((α-1)(D_α - ε + log(1-1/α)))/α is one.
export function vectorDelta(plans, epsilon) {
  demand(plans.every(({ way }) => way === "vectors"), "unsupported", "vectors and other reports in one turn");
  const reached = plans.map(({ moments, precision, share }) => [share, moments.reach(precision)]);
  const exponents = ORDERS.map((order) => {
    const divergence = reached.reduce((sum, [share, reach]) => sum + BOUNDS[share.family](share, reach, order), 0);
    return (order - 1) * (divergence - epsilon + Math.log1p(-1 / order)) - Math.log(order);
  });
  return Math.exp(Math.min(0, ...exponents));
}
