// A table with a bar in each row: pale from 0 to the upper bound, dark to the lower one, a line at
// the estimate.

import { h, svg } from "./dom.js";
import { lowerText, number, upperText } from "./format.js";

const WIDTH = 100;
const HEIGHT = 14;

/** A figure element with rows [name, figure]. */
export function bars(title, rows) {
  const most = Math.max(0, ...rows.map(([, { upper }]) => upper ?? 0));
  const along = (value) => (most ? (WIDTH * Math.max(0, value ?? 0)) / most : 0);
  const header = ["", "estimate", "lower", "upper", ""].map((text) => h("th", { scope: "col" }, text));
  const body = rows.map(([name, { estimate, lower, upper }]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      ...[number(estimate), lowerText(lower), upperText(upper)].map((text) => h("td", {}, text)),
      h("td", { class: "bar" }, bar(along(lower), along(upper), along(estimate))),
    ),
  );
  const caption = h("figcaption", {}, h("b", {}, title), rows.length ? "" : " none came often enough");
  const table = h("table", {}, h("thead", {}, h("tr", {}, ...header)), h("tbody", {}, ...body));
  return h("figure", {}, caption, ...(rows.length ? [h("div", { class: "table" }, table)] : []));
}

const bar = (lower, upper, estimate) =>
  svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { x: 0, y: 2, width: upper, height: HEIGHT - 4, class: "up-to-upper" }),
    svg("rect", { x: 0, y: 2, width: lower, height: HEIGHT - 4, class: "up-to-lower" }),
    svg("rect", { x: Math.max(0, estimate - 0.5), y: 0, width: 1, height: HEIGHT, class: "estimate" }),
  );
