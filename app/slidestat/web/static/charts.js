// Charts of an estimate inside the band between its lower and its upper bound, drawn by uPlot.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { compact, duration, lengthText, number, utc } from "./format.js";

const HEIGHT = 230;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Charts follow the theme: their canvas does not do so by itself. */
const charts = new Set();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const chart of charts) chart.redraw(false, true);
});

/** A chart in `element`; `x` says what lies along its horizontal axis. */
export class BandChart {
  constructor(element, x) {
    this.element = element;
    this.rows = [[], [], [], []];
    this.chart = new uPlot(options(x, element.clientWidth), this.rows, element);
    charts.add(this.chart);
    new ResizeObserver(() => this.fit()).observe(element);
  }

  /** Show points [x, lower, upper, estimate] in order of x, and their name. */
  show(points, name) {
    this.rows = [0, 1, 2, 3].map((column) => points.map((point) => point[column]));
    this.element.setAttribute("aria-label", summary(points, name));
    this.chart.setData(this.rows);
    // Without a pointer over the chart, its legend tells the last point.
    if (!(this.chart.cursor.left >= 0)) this.chart.setLegend({ idx: points.length - 1 });
  }

  fit() {
    const width = this.element.clientWidth;
    if (width && width !== this.chart.width) this.chart.setSize({ width, height: HEIGHT });
  }
}

/** Along the axis: event time, in seconds. */
export const alongTime = {
  title: "window end, event time, UTC",
  time: true,
  value: (x) => (x === null ? "–" : utc(x * 1000)),
};

/** Along the axis: the length of a window, as its logarithm. */
export const alongLengths = (ofEvents) => ({
  title: ofEvents ? "window, events" : "window",
  value: (x) => (x === null ? "–" : lengthText(Math.round(2 ** x), ofEvents)),
  splits: (least, most, room) => {
    const nice = ofEvents
      ? Array.from({ length: 13 }, (_, power) => 10 ** power)
      : [1, 10, 100, 1e3, 1e4, 6e4, 6e5, 36e5, 216e5, 864e5, 6048e5, 2592e6, 31536e6];
    const inside = nice.map(Math.log2).filter((x) => x >= least && x <= most);
    const step = Math.ceil(inside.length / room);
    return inside.filter((_, i) => i % step === 0);
  },
  label: (x) => (ofEvents ? compact(Math.round(2 ** x)) : duration(Math.round(2 ** x))),
});

/** Along the axis: shares from 0 to 1. */
export const alongShares = {
  title: "quantile",
  value: (x) => (x === null ? "–" : number(x)),
};

// How uPlot writes times at each distance of ticks, in seconds: as ISO 8601 does, by 24 hours. What
// changes less often stands below, where it changes.
const CLOCK = [
  [31_536_000, "{YYYY}", null, null, null, null, null, null, 1],
  [2_419_200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86_400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [3_600, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [0.001, "{HH}:{mm}:{ss}.{fff}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

function options(x, width) {
  const axis = (more) => ({
    stroke: () => color("--muted"),
    font: "12px system-ui, sans-serif",
    labelFont: "12px system-ui, sans-serif",
    labelSize: 18,
    grid: { stroke: () => color("--line"), width: 1 },
    ticks: { stroke: () => color("--line"), width: 1 },
    ...more,
  });
  const horizontal = { label: x.title, ...(x.time && { values: CLOCK }) };
  if (x.splits) {
    horizontal.splits = (chart, _axis, least, most) =>
      x.splits(least, most, Math.max(2, Math.floor(chart.width / 80)));
    horizontal.values = (_chart, splits) => splits.map(x.label);
  }
  const bound = (label) => ({
    label,
    value: (_chart, value) => number(value),
    stroke: () => color("--band-edge"),
    width: 1,
    points: { show: false },
  });
  return {
    width: width || 300,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { x: { time: x.time === true, range: (chart, least, most) => apart(chart, least, most, x) }, y: { range: { min: soft(0.1), max: soft(0.1) } } },
    cursor: { y: false, drag: { x: false } },
    legend: { markers: { show: false } },
    axes: [axis(horizontal), axis({ size: 64, values: (_chart, splits) => splits.map(compact) })],
    series: [
      { label: x.time ? "at" : x.title, value: (_chart, value) => x.value(value) },
      bound("lower"),
      bound("upper"),
      {
        label: "estimate",
        value: (_chart, value) => number(value),
        stroke: () => color("--accent"),
        width: 2,
        points: { size: 5, fill: () => color("--accent") },
      },
    ],
    bands: [{ series: [2, 1], fill: () => color("--band") }],
  };
}

/** The ends of the axis; a single point in time stands in the middle of a minute. */
function apart(chart, least, most, x) {
  const [xs] = chart.data;
  if (xs.length !== 1) return [least, most];
  return x.time ? [xs[0] - 30, xs[0] + 30] : [xs[0] - 1, xs[0] + 1];
}

const soft = (pad) => ({ pad, soft: 0, mode: 2 });

/** What the picture shows, in words. */
function summary(points, name) {
  if (!points.length) return `${name}: nothing to show yet`;
  const [, lower, upper, estimate] = points[points.length - 1];
  return (
    `${name}: ${points.length} points; the last one is ${number(estimate)},` +
    ` between ${number(lower)} and ${number(upper)}`
  );
}
