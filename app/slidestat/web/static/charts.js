// Charts of an estimate inside the band between its lower and its upper bound, drawn by uPlot.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { axisTexts, compact, duration, lengthText, lowerText, number, time, upperText, zone } from "./format.js";

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
    this.points = [];
    this.holes = [];
    this.before = NOTHING_BEFORE;
    this.rows = Array.from({ length: 7 }, () => []);
    this.chart = new uPlot(options(x, element.clientWidth, this), this.rows, element);
    charts.add(this.chart);
    new ResizeObserver(() => this.fit()).observe(element);
  }

  /** Show points [x, lower, upper, estimate] in order of x, and their name; no line leads over
   * `holes` ({from, to, kind}), of which one from -Infinity is what lies before the first point.
   * `before` has the points, holes and name of a second band.
   */
  show(points, name, holes = [], before = NOTHING_BEFORE) {
    Object.assign(this, { points, holes, before });
    this.rows = uPlot.join([columns(points), columns(before.points)]);
    const past = before.points.length ? `. ${summary(before.points, before.name, before.holes)}` : "";
    this.element.setAttribute("aria-label", summary(points, name, holes) + past);
    for (const place of [4, 5, 6]) {
      if (this.chart.series[place].show !== before.points.length > 0) {
        this.chart.setSeries(place, { show: before.points.length > 0 });
      }
    }
    this.chart.setData(this.rows);
    // Without a pointer over the chart, its legend tells the last point.
    if (!(this.chart.cursor.left >= 0)) this.chart.setLegend({ idx: this.rows[0].indexOf(points.at(-1)?.[0]) });
  }

  /** The places of points that have no line on either side. */
  get alone() {
    const [xs, , , estimates] = columns(this.points);
    const places = new Map(this.rows[0].map((x, place) => [x, place]));
    const begins = new Set(this.holes.map(({ from }) => from));
    const ends = new Set(this.holes.map(({ to }) => to));
    const isCut = (i, j) => estimates[j] == null || (i < j ? begins : ends).has(xs[i]);
    const found = [...xs.keys()].filter((i) => estimates[i] != null && isCut(i, i - 1) && isCut(i, i + 1));
    return found.map((i) => places.get(xs[i]));
  }

  /** What has no line, in pixels, from left to right. */
  gaps(chart, ofNulls, holes) {
    const [least, most] = [chart.bbox.left, chart.bbox.left + chart.bbox.width];
    const place = (x) => Math.min(most, Math.max(least, chart.valToPos(x, "x", true)));
    const all = [...ofNulls, ...holes.map(({ from, to }) => [place(from), place(to)])];
    const gaps = [];
    for (const [from, to] of all.sort(([a], [b]) => a - b)) {
      const last = gaps.at(-1);
      if (last && from < last[1]) last[1] = Math.max(last[1], to);
      else gaps.push([from, to]);
    }
    return gaps;
  }

  /** Mark the holes, below the lines: what was not read is hatched, what is silent stays empty. */
  drawHoles(chart) {
    const { ctx, bbox } = chart;
    const scale = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.strokeStyle = color("--hatch");
    ctx.fillStyle = color("--muted");
    ctx.font = `${11 * scale}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    for (const { from, to, kind } of this.holes) {
      const left = from === -Infinity ? bbox.left : chart.valToPos(from, "x", true);
      const right = chart.valToPos(to, "x", true);
      if (kind === "unread") hatch(ctx, left, Math.max(right, left + 2 * scale), bbox, 6 * scale);
      const text = HOLES[kind];
      if (ctx.measureText(text).width < right - left - 8 * scale) {
        ctx.fillText(text, (left + right) / 2, bbox.top + bbox.height - 6 * scale);
      }
    }
    ctx.restore();
  }

  /** Show the bounds of a point that is alone, where a band has no width. */
  drawAlone(chart) {
    const { ctx } = chart;
    const [xs, lower, upper] = this.rows;
    ctx.save();
    ctx.strokeStyle = color("--band-edge");
    ctx.lineWidth = 3 * devicePixelRatio;
    for (const i of this.alone) {
      const x = chart.valToPos(xs[i], "x", true);
      ctx.beginPath();
      ctx.moveTo(x, chart.valToPos(lower[i] ?? 0, "y", true));
      ctx.lineTo(x, chart.valToPos(upper[i] ?? 0, "y", true));
      ctx.stroke();
    }
    ctx.restore();
  }

  fit() {
    const width = this.element.clientWidth;
    if (width && width !== this.chart.width) this.chart.setSize({ width, height: HEIGHT });
  }
}

const NOTHING_BEFORE = { points: [], holes: [], name: "" };

/** Columns of x, lower, upper and estimate. */
const columns = (points) => [0, 1, 2, 3].map((column) => points.map((point) => point[column]));

const HOLES = { silent: "nothing written", unread: "not read" };

function hatch(ctx, left, right, { top, height }, step) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, right - left, height);
  ctx.clip();
  ctx.beginPath();
  for (let x = left - height - ((left - height) % step); x < right; x += step) {
    ctx.moveTo(x, top + height);
    ctx.lineTo(x + height, top);
  }
  ctx.stroke();
  ctx.restore();
}

/** Along the axis: event time, in seconds. */
export const alongTime = {
  title: `window end, event time, ${zone}`,
  time: true,
  value: (x) => (x === null ? "–" : time(x * 1000)),
};

/** Along the axis: numbers of a sequence, which are no times. */
export const alongSequence = {
  title: "window end, number of the sequence",
  value: (x) => (x === null ? "–" : number(x)),
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

function options(x, width, band) {
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
  const gaps = (chart, place, _first, _last, ofNulls) =>
    band.gaps(chart, ofNulls, place > 3 ? band.before.holes : band.holes);
  const bound = (label, text, more = {}) => ({
    label,
    gaps,
    value: (_chart, value) => text(value),
    stroke: () => color("--band-edge"),
    width: 1,
    points: { show: false },
    ...more,
  });
  const past = { show: false, stroke: () => color("--past"), dash: [4, 4] };
  return {
    width: width || 300,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone === "UTC" ? "Etc/UTC" : zone),
    scales: { x: { time: x.time === true, range: (chart, least, most) => apart(chart, least, most, x, band) }, y: { range: { min: soft(0.1), max: soft(0.1) } } },
    cursor: { y: false, drag: { x: false } },
    legend: { markers: { show: false } },
    axes: [axis(horizontal), axis({ size: axisSize, values: (_chart, splits) => axisTexts(splits) })],
    hooks: { drawClear: [(chart) => band.drawHoles(chart)], draw: [(chart) => band.drawAlone(chart)] },
    series: [
      { label: x.time ? "at" : x.title, value: (_chart, value) => x.value(value) },
      bound("lower", lowerText),
      bound("upper", upperText),
      {
        label: "estimate",
        value: (_chart, value) => number(value),
        stroke: () => color("--accent"),
        width: 2,
        gaps,
        // Where points are too dense to be marked, one without a line would be seen nowhere.
        points: { size: 5, fill: () => color("--accent"), filter: (_chart, _series, show) => (show ? null : band.alone) },
      },
      bound("lower before", lowerText, past),
      bound("upper before", upperText, past),
      bound("before", number, { ...past, width: 2 }),
    ],
    bands: [
      { series: [2, 1], fill: () => color("--band") },
      { series: [5, 4], fill: () => color("--past-band") },
    ],
  };
}

/** The ends of the axis: a single point in time stands in the middle of a minute; what was not
 * read before the first point has a strip of its own.
 */
function apart(chart, least, most, x, band) {
  const [xs] = chart.data;
  if (xs.length && least === most) [least, most] = x.time ? [xs[0] - 30, xs[0] + 30] : [xs[0] - 1, xs[0] + 1];
  const hasPast = xs.length && band.holes.some(({ from }) => from === -Infinity);
  return [hasPast ? least - 0.06 * (most - least) : least, most];
}

/** The room that the longest label of an axis takes. */
const axisSize = (_chart, texts) => Math.max(64, 26 + 7 * Math.max(0, ...(texts ?? []).map((text) => text.length)));

const soft = (pad) => ({ pad, soft: 0, mode: 2 });

/** What the picture shows, in words. */
function summary(points, name, holes) {
  const count = (wanted) => holes.filter(({ kind }) => kind === wanted).length;
  const [silent, unread] = [count("silent"), count("unread")];
  const without =
    (silent ? `, ${silent} ${silent === 1 ? "stretch" : "stretches"} with nothing written` : "") +
    (unread ? `, ${unread} not read` : "");
  if (!points.length) return `${name}: nothing to show yet`;
  const [, lower, upper, estimate] = points[points.length - 1];
  return (
    `${name}: ${points.length} points${without}; the last one is ${number(estimate)},` +
    ` between ${lowerText(lower)} and ${upperText(upper)}`
  );
}
