// How the workers are: totals, rates from one answer to the next, and a row for each partition.

import { byId, fillRows, h, say } from "./dom.js";
import { bytes, count, howLong, keysText, number, perSecond, time, timeIn } from "./format.js";

// Rates are over so many answers back.
const BACK = 5;

/** Shows the answers to `status`, and hands totals and rates to the picture. */
export class Status {
  constructor(flow) {
    this.flow = flow;
    this.clear();
  }

  clear() {
    this.history = [];
  }

  show(status) {
    const partitions = status.workers.flatMap((worker) =>
      worker.partitions.map((partition) => ({ ...partition, url: worker.url })),
    );
    partitions.sort((a, b) => a.partition - b.partition);
    const totals = sums(partitions);
    const rates = this.rates(partitions);
    this.flow.show({ rates, totals, workers: status.workers.length });
    this.showTotals(totals, rates, status.now_ms);
    showMoving(status.workers);
    showIncomplete(partitions, totals.isSequence);
    showWorkers(status.workers);
    fillRows(
      byId("partitions"),
      partitions.map((p) => [
        String(p.partition),
        p.url.replace(/^https?:\/\//, ""),
        number(p.next_offset),
        number(lagOf(p)),
        watermarkText(watermarkOf(p), isSequence(p)),
        number(p.counted),
        number(p.late),
        number(p.dead),
        number(p.lost),
        number(p.passed_over),
        leftOutText(p.left_out),
        number(p.keys),
        bytes(p.state_bytes),
      ]),
    );
  }

  /** Per second, over the last answers that had the same partitions in the same places. */
  rates(partitions) {
    const at = performance.now() / 1000;
    const held = partitions.map((p) => `${p.partition}@${p.url}`).join();
    this.history = this.history.filter((earlier) => earlier.held === held).slice(-BACK);
    const now = { at, held, ...sums(partitions) };
    this.history.push(now);
    const [first] = this.history;
    const rate = (name) => (now === first ? null : Math.max(0, (now[name] - first[name]) / (at - first.at)));
    return Object.fromEntries(["read", "counted", "emitted", "late", "dead"].map((name) => [name, rate(name)]));
  }

  showTotals(totals, rates, now) {
    say(byId("total-read"), perSecond(rates.read));
    const waiting = totals.waiting ? `, ${number(totals.waiting)} of them behind an open transaction` : "";
    say(byId("total-lag"), totals.lag === null ? "–" : `${number(totals.lag)} records${waiting}`);
    say(byId("total-watermark"), watermarkText(totals.watermark, totals.isSequence));
    const delay = totals.watermark !== null && !totals.isSequence ? now - totals.watermark : null;
    say(byId("total-delay"), delay === null ? "–" : howLong(Math.max(0, delay)));
    say(byId("total-late"), number(totals.late));
    say(byId("total-dead"), number(totals.dead));
    say(byId("total-lost"), number(totals.lost));
    say(byId("total-passed-over"), number(totals.passedOver));
    say(byId("total-left-out"), leftOutText(totals.leftOut));
    say(byId("total-keys"), keysText(totals));
    say(byId("total-state"), bytes(totals.state));
  }
}

/** How many records of each source are not moved by their key yet; nothing where none are moved. */
function showMoving(workers) {
  const moving = workers.map(({ repartition }) => repartition).filter(Boolean);
  const texts = moving.map(({ records, sources }) =>
    sources
      ? Object.entries(sources).map(([source, lag]) => `${source}: ${number(lag.records)}`).join(", ")
      : number(records),
  );
  byId("moving").hidden = !texts.length;
  say(byId("total-moving"), `${texts.join(", ")} records`);
}

/** For how many keys of all workers each alert fires, by its name. */
export function firingOf({ workers }) {
  const keys = new Map();
  for (const [alert, count] of workers.flatMap(({ firing }) => Object.entries(firing))) {
    keys.set(alert, (keys.get(alert) ?? 0) + count);
  }
  return keys;
}

/** Until when the windows of statistics that were added are incomplete; of all partitions the last. */
function showIncomplete(partitions, isNumber) {
  const until = new Map();
  for (const added of partitions.flatMap(({ incomplete }) => incomplete ?? [])) {
    const end = added.until_ms ?? Infinity;
    until.set(added.statistic, Math.max(end, until.get(added.statistic) ?? end));
  }
  const texts = [...until].map(([name, end]) =>
    end === Infinity ? `${name}: not of all events` : `${name}: until ${isNumber ? number(end) : timeIn(end)}`,
  );
  byId("incomplete").hidden = !texts.length;
  say(byId("total-incomplete"), texts.join(", "));
}

/** In milliseconds, or a number of a sequence; null before any event. */
const watermarkOf = (p) => p.watermark_seq ?? p.watermark_ms;

const isSequence = (p) => p.watermark_seq !== undefined;

function watermarkText(watermark, isNumber) {
  if (watermark === null) return "–";
  return isNumber ? number(watermark) : time(watermark);
}

const lagOf = (p) => (p.end_offset === null ? null : Math.max(0, p.end_offset - p.next_offset));

/** Of what is known; null where nothing is. The watermark is that of the partition furthest back. */
function sums(partitions) {
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const known = (values) => values.filter((value) => value !== null);
  const all = (name) => sum(partitions.map((p) => p[name]));
  const some = (values) => (known(values).length ? sum(known(values)) : null);
  const marks = known(partitions.map(watermarkOf));
  return {
    read: all("next_offset"),
    counted: all("counted"),
    emitted: all("emissions"),
    late: all("late"),
    dead: all("dead"),
    lost: all("lost"),
    passedOver: all("passed_over"),
    leftOut: leftOut(partitions),
    state: all("state_bytes"),
    lag: some(partitions.map(lagOf)),
    waiting: sum(partitions.map((p) => p.waiting ?? 0)),
    keys: some(partitions.map((p) => p.keys)),
    keysAreAll: partitions.every((p) => p.keys !== null),
    watermark: marks.length ? Math.min(...marks) : null,
    isSequence: partitions.some(isSequence),
  };
}

/** How many events each statistic left out. */
function leftOut(partitions) {
  const found = {};
  for (const [label, count] of partitions.flatMap((p) => Object.entries(p.left_out))) {
    found[label] = (found[label] ?? 0) + count;
  }
  return found;
}

const leftOutText = (counts) =>
  Object.entries(counts)
    .map(([label, count]) => `${label} ${number(count)}`)
    .join(", ") || "0";

function showWorkers(workers) {
  const list = byId("workers");
  while (list.children.length > workers.length) list.lastChild.remove();
  workers.forEach((worker, i) => {
    const item = list.children[i] ?? list.appendChild(h("li"));
    const rest = worker.remaining ? `, ${count(worker.remaining, "changelog record")} to go` : "";
    const held = worker.state === "ready" ? `, ${count(worker.partitions.length, "partition")}` : "";
    item.dataset.state = worker.state;
    say(item, `${worker.url}: ${worker.state}${rest}${held}`);
  });
}
