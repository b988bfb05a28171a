// One key: its figures for the window on the slider, the chosen one over time and over all windows,
// its quantiles as a curve, and its items and ranges as bars.

import * as api from "./api.js";
import { bars } from "./bars.js";
import { alongLengths, alongSequence, alongShares, alongTime, BandChart } from "./charts.js";
import { byId, h, say } from "./dom.js";
import { figureName, lengthText, lowerText, number, promise, timeOrNumber, upperText, windowOf } from "./format.js";
import { holesOf, knownUntil } from "./timeline.js";
import { Before, Window } from "./window.js";

// Half an hour of answers, one every two seconds.
const MOST_POINTS = 900;
// The topic is read again so long after the last time, where the page was told nothing meanwhile.
const READ_AGAIN_MS = 10_000;
const WINDOWS_ASKED = 40;
const SHARES = [0, 0.01, 0.02, 0.05, ...Array.from({ length: 17 }, (_, i) => (i + 2) / 20), 0.95, 0.98, 0.99, 1]
  .filter((share, i, all) => all.indexOf(share) === i);

const isListed = (figure) => figure.item !== undefined;
const isRange = (figure) => figure.at_least !== undefined || figure.below !== undefined;
const pointOf = (x, figure, asked) => [x, figure.lower, figure.upper, figure.estimate, asked];

/** Shows a key; calls `moved()` when another window or statistic is chosen, `failed(error)` for what
 * concerns the whole page.
 */
export class Key {
  constructor(moved, failed) {
    this.failed = failed;
    this.moved = moved;
    this.windowless = new Set();
    this.window = new Window(() => {
      this.forget();
      moved();
      this.refresh();
    });
    this.before = new Before(() => {
      this.past = new Map();
      moved();
      this.showOverTime();
      this.refresh();
    });
    this.asked = 0;
  }

  /** Show `key` of a topology; `window` and `series` are texts, or null for the first there is; `ago`
   * is how long before is shown, too, or null.
   */
  open(topology, key, window, series, ago) {
    const isOther = topology.name !== this.topology?.name;
    this.topology = topology;
    this.key = key;
    this.series = series ?? this.series;
    this.asked += 1;
    this.window.of(topology, window);
    this.before.of(topology, ago);
    if (isOther) this.makeCharts();
    this.forget();
    say(byId("key-title"), key);
    say(byId("key-place"), "");
    this.showMessage("");
    byId("figures").replaceChildren();
    byId("lists").replaceChildren();
    this.emitted = []; // Not asked for yet: a key that is not there has no history either.
    this.history = { readAt: -Infinity, isBeingRead: false, mayBeReadAgain: true };
  }

  /** Where a window's end lies along the axis. */
  xOf(end) {
    return this.topology.every_seq === null ? end / 1000 : end;
  }

  /** Read what was written out before, and again where the page was told nothing for a while: it
   * was hidden, or paused, or the worker was away, or event time runs faster than it asks.
   */
  async readHistory() {
    const { topology, key, history } = this;
    if (history.isBeingRead || !history.mayBeReadAgain) return;
    if (Date.now() < history.readAt + READ_AGAIN_MS) return;
    Object.assign(history, { isBeingRead: true, readAt: Date.now() });
    try {
      const answer = await api.history(topology.name, key);
      const after = answer.complete_after_ms ?? answer.complete_after_seq;
      const isOpen = answer.cut !== undefined && after === undefined;
      history.after = isOpen ? Infinity : after === undefined ? -Infinity : this.xOf(after);
      history.untold = answer.cut;
      history.wasRead = history.readAt;
      if (history === this.history) this.emitted = answer.emissions;
    } catch (error) {
      if (!(error instanceof api.ApiError)) throw error;
      if (history.wasRead === undefined) history.untold = `What was written out cannot be read: ${error.message}`;
      history.mayBeReadAgain = error.status !== 500; // That answer would be the same again.
    } finally {
      history.isBeingRead = false;
    }
    if (history === this.history) this.showOverTime();
  }

  /** Between which window ends all that was written out is known; null if none of the window is. */
  known(written, seen) {
    const { after, wasRead } = this.history;
    const isWritten = written.length > 0 || this.window.isWritten;
    if (wasRead === undefined || !isWritten) return null;
    return { after, until: knownUntil(written, seen, wasRead) };
  }

  /** The series over windows of the length on the slider, if such windows are written out. */
  emittedPoints() {
    return (this.emitted ?? []).flatMap(({ window_end_ms, window_end_seq, figures }) =>
      figures
        .filter((figure) => this.window.isOf(figure))
        .filter((figure) => !isListed(figure) && figureName(figure) === this.series)
        .map((figure) => pointOf(this.xOf(window_end_seq ?? window_end_ms), figure)),
    );
  }

  close() {
    this.key = undefined;
    this.asked += 1;
    byId("key-body").hidden = true;
    say(byId("key-title"), "Choose a key");
    this.showMessage("");
  }

  makeCharts() {
    byId("over-time").replaceChildren();
    this.overTime = new BandChart(byId("over-time"), this.topology.every_seq === null ? alongTime : alongSequence);
    byId("over-windows").replaceChildren();
    this.overWindows = new BandChart(byId("over-windows"), alongLengths(this.window.ofEvents));
    this.curves = new Map();
    byId("distributions").replaceChildren();
  }

  /** Points over time are of one window: another one begins anew. */
  forget() {
    this.points = new Map();
    this.past = new Map();
  }

  async refresh() {
    if (this.key === undefined) return;
    const asked = (this.asked += 1);
    const { name, statistics } = this.topology;
    const window = this.window.asText;
    const isCurrent = () => asked === this.asked;
    try {
      const answer = await api.figures(name, this.key, { window });
      if (!isCurrent()) return;
      this.showMessage("");
      byId("key-body").hidden = false;
      this.overTime.fit();
      this.overWindows.fit();
      this.show(answer);
      await this.refreshBefore(window, isCurrent);
      await this.refreshOverWindows(isCurrent);
      for (const { name: statistic, kind } of statistics) {
        if (kind === "quantile") await this.refreshCurve(statistic, window, isCurrent);
      }
    } catch (error) {
      if (!isCurrent()) return;
      this.showMessage(`${error.message} ${error.advice ?? ""}`);
      if (error.status === 404) byId("key-body").hidden = true;
      else this.failed(error);
    }
  }

  showMessage(text) {
    say(byId("key-error"), text);
    byId("key-error").hidden = !text;
  }

  show(answer) {
    const { figures, source_topic: topic, source_partition: partition } = answer;
    const { window_end_ms: ms, window_end_seq: seq } = answer;
    const end = seq ?? ms;
    say(byId("key-place"), `partition ${partition} of ${topic}; windows end at ${timeOrNumber(ms, seq)}, ${whatEnds(answer)}`);
    const single = figures.filter((figure) => !isListed(figure));
    if (!single.some((figure) => figureName(figure) === this.series)) {
      this.series = single.length ? figureName(single[0]) : undefined;
    }
    // Derived figures have the windows of their parts, totals have none.
    this.windowless = new Set(single.filter((figure) => windowOf(figure) === undefined).map(figureName));
    for (const figure of single) this.remember(figureName(figure), pointOf(this.xOf(end), figure, Date.now()));
    showAlerts(answer.alerts ?? []);
    this.showFigures(single);
    this.showOverTime();
    if (this.history.readAt === -Infinity) this.readHistory();
    this.showLists(figures);
  }

  /** A window that ended where the last one did replaces it: event time stood still. One that ended
   * earlier replaces all from there on: a worker took it up again from its last checkpoint.
   */
  remember(series, point, all = this.points) {
    const points = all.get(series) ?? [];
    while (points.length && points[points.length - 1][0] >= point[0]) points.pop();
    all.set(series, [...points, point].slice(-MOST_POINTS));
  }

  /** Ask for the windows that ended before, and draw them where those of now are. */
  async refreshBefore(window, isCurrent) {
    const question = `${this.topology.name} ${window} ${this.before.asText}`;
    if (!this.before.isWith(this.window) || this.refused === question) return;
    const ago = this.before.asText;
    let found;
    try {
      found = await api.figures(this.topology.name, this.key, { window, ago });
    } catch (error) {
      if (error.status !== 400) throw error;
      this.refused = question; // This topology has no past: it would be refused again.
      if (isCurrent()) this.before.showMessage(`${error.message} ${error.advice ?? ""}`);
      return;
    }
    if (!isCurrent()) return;
    this.before.showMessage("");
    const end = this.xOf(found.window_end_seq ?? found.window_end_ms) + this.xOf(this.before.length);
    for (const figure of found.figures.filter((each) => !isListed(each))) {
      this.remember(figureName(figure), pointOf(end, figure, Date.now()), this.past);
    }
    this.showOverTime();
  }

  /** The series as it was so long before the points of now: as written out, and as the page was told. */
  pastPoints(written, first, last) {
    if (!this.before.length) return [];
    const shift = this.xOf(this.before.length);
    const told = this.past.get(this.series) ?? [];
    const from = told.length ? told[0][0] : Infinity;
    const before = written.map(([x, ...rest]) => [x + shift, ...rest]);
    return [...before.filter(([x]) => first <= x && x <= last && x < from), ...told];
  }

  showFigures(figures) {
    const body = byId("figures");
    while (body.rows.length > figures.length) body.deleteRow(-1);
    figures.forEach((figure, i) => {
      const name = figureName(figure);
      const row = body.rows[i] ?? body.appendChild(this.figureRow());
      const [radio, text] = row.cells[0].firstChild.children;
      radio.value = name;
      radio.checked = name === this.series;
      say(text, name);
      [number(figure.estimate), lowerText(figure.lower), upperText(figure.upper)].forEach((text, j) => say(row.cells[j + 1], text));
      say(row.cells[4], promise(figure, this.topology.every_seq !== null));
    });
  }

  figureRow() {
    const choose = (event) => {
      this.series = event.currentTarget.value;
      this.moved();
      this.showOverTime();
      this.refresh();
    };
    const radio = h("input", { type: "radio", name: "series", change: choose });
    const header = h("th", { scope: "row", role: "rowheader" }, h("label", {}, radio, h("span")));
    const cell = (more = {}) => h("td", { role: "cell", ...more });
    // Roles, as a narrow page lays rows out in another way, which takes them from a table.
    return h("tr", { role: "row" }, header, cell(), cell(), cell(), cell({ class: "promised" }));
  }

  showOverTime() {
    if (this.series === undefined) return;
    const written = this.emittedPoints();
    const last = written.length ? written[written.length - 1][0] : -Infinity;
    const seen = (this.points.get(this.series) ?? []).filter(([end]) => end > last);
    const isWindowless = this.windowless.has(this.series);
    byId("over-windows").parentElement.hidden = isWindowless;
    const name = isWindowless ? this.series : `${this.series}, ${this.window.asText}`;
    say(byId("over-time-name"), name);
    const points = [...written, ...seen];
    const known = this.known(written, seen);
    const { every_ms: every, every_seq: numbers } = this.topology;
    const ticks = { everyX: numbers ?? (every ?? Infinity) / 1000, isSequence: numbers !== null };
    const holes = holesOf(points, ticks, known);
    const { untold } = this.history;
    const isCut = untold !== undefined && points.length > 0;
    const past = this.pastPoints(written, points[0]?.[0], points.at(-1)?.[0]);
    const hint = hintOf(written.length, seen.length, untold);
    say(byId("over-time-hint"), past.length ? `${hint}; dashed: ${this.before.asText} before` : hint);
    const all = isCut ? [{ from: -Infinity, to: points[0][0], kind: "unread" }, ...holes] : holes;
    const shift = this.xOf(this.before.length);
    const knownThen = known && { after: known.after + shift, until: known.until + shift };
    const before = { points: past, holes: holesOf(past, ticks, knownThen), name: `${this.before.asText} before` };
    this.overTime.show(points, `${name}, over time`, all, before);
    // What has been cut off would be so again.
    if (known !== null && holes.some(({ kind, to }) => kind === "unread" && to > known.after)) this.readHistory();
  }

  async refreshOverWindows(isCurrent) {
    const [statistic] = (this.series ?? "").split(" ");
    if (!this.topology.statistics.some(({ name }) => name === statistic)) return;
    const window = this.window.along(WINDOWS_ASKED).map((length) => lengthText(length, this.window.ofEvents));
    const { figures } = await api.figures(this.topology.name, this.key, { window, statistic });
    if (!isCurrent()) return;
    const points = figures
      .filter((figure) => figureName(figure) === this.series)
      .map((figure) => pointOf(Math.log2(figure.window_ms ?? figure.window_events ?? NaN), figure));
    say(byId("over-windows-name"), this.series);
    this.overWindows.show(points.filter(([x]) => !Number.isNaN(x)), `${this.series}, by the length of the window`);
  }

  async refreshCurve(statistic, window, isCurrent) {
    const { figures } = await api.figures(this.topology.name, this.key, { window, statistic, quantile: SHARES });
    if (!isCurrent()) return;
    if (!this.curves.has(statistic)) {
      const place = h("div", { role: "img" });
      const name = h("b");
      byId("distributions").append(h("figure", {}, h("figcaption", {}, name, " of the window's events"), place));
      this.curves.set(statistic, { name, chart: new BandChart(place, alongShares) });
    }
    const { name, chart } = this.curves.get(statistic);
    say(name, `${statistic}, ${window}`);
    chart.show(figures.map((figure) => pointOf(figure.quantile, figure)), `${statistic}, over all shares`);
  }

  /** Items and ranges, a picture for each statistic that has them. */
  showLists(figures) {
    const listed = Map.groupBy(
      figures.filter((figure) => isListed(figure) || isRange(figure)),
      (figure) => figure.statistic,
    );
    const pictures = [...listed].map(([statistic, found]) =>
      bars(`${statistic}, ${this.window.asText}`, found.map((figure) => [nameInList(figure), figure])),
    );
    for (const { name, kind } of this.topology.statistics) {
      if (kind === "top" && !listed.has(name)) pictures.push(bars(`${name}, ${this.window.asText}`, []));
    }
    byId("lists").replaceChildren(...pictures);
  }
}

/** The alerts of the key that fire, or that wait for more emissions. */
function showAlerts(alerts) {
  const list = byId("key-alerts");
  while (list.children.length > alerts.length) list.lastChild.remove();
  alerts.forEach((alert, i) => {
    const item = list.children[i] ?? list.appendChild(h("li"));
    const told = JSON.stringify(alert);
    if (item.dataset.told === told) return; // A link that has the focus keeps it.
    item.dataset.told = told;
    item.dataset.state = alert.state;
    item.replaceChildren(...aboutAlert(alert));
  });
  list.hidden = !alerts.length;
}

/** An alert in words, with its labels, its texts, and the way to its runbook. */
function aboutAlert({ alert, state, certainty, since_ms, since_seq, severity, labels, annotations, runbook }) {
  const known = Object.entries({ ...(severity ? { severity } : {}), ...labels });
  return [
    `${alert}: ${state}, ${certainty}, since ${timeOrNumber(since_ms, since_seq)}`,
    ...known.flatMap(([name, text]) => [" ", h("span", { class: "label" }, `${name}=${text}`)]),
    ...Object.entries(annotations ?? {}).map(([name, text]) => h("p", {}, `${name}: ${text}`)),
    ...(runbook ? [" ", h("a", { href: runbook, target: "_blank", rel: "noopener noreferrer" }, "what to do")] : []),
  ];
}

/** What the end of an answer's windows is: of a referee, a tick, with who is not in it. */
function whatEnds({ parties, absent, lost }) {
  if (!parties) return `the watermark${lost ? `; windows may lack ${lost.records} lost records` : ""}`;
  const without = (absent ?? []).map(({ party }) => party).join(", ");
  return `a tick of ${parties.length} ${parties.length === 1 ? "party" : "parties"}${without && `, without ${without}`}`;
}

function hintOf(written, seen, untold) {
  const since = written
    ? "as written out, and live since this key was opened"
    : seen < 2 ? "from now on, as event time goes on" : "since this key was opened";
  return untold === undefined ? since : `${since}. ${untold}`;
}

const nameInList = (figure) => (isListed(figure) ? figure.item : figureName(figure).slice(figure.statistic.length + 1));
