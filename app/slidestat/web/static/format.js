// Numbers, lengths and times as people read them. Times are UTC, as the command line shows them, or
// in the viewer's own zone.

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1_000], ["ms", 1]];
const WORDS = { d: "day", h: "hour", m: "minute", s: "second", ms: "millisecond" };

const sixDigits = (roundingMode) => new Intl.NumberFormat("en", { maximumSignificantDigits: 6, roundingMode });
const [six, sixDown, sixUp] = ["halfExpand", "floor", "ceil"].map(sixDigits);
const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

const numberBy = (format) => (value) =>
  value === null || value === undefined ? "–" : Number.isInteger(value) ? whole.format(value) : format.format(value);

/** Six digits, or a dash for a figure that does not exist. */
export const number = numberBy(six);

/** A bound holds as it is written, too: it is rounded outward. */
export const lowerText = numberBy(sixDown);
export const upperText = numberBy(sixUp);

/** For axes: 1.2M. */
export const compact = (value) => short.format(value);

/** Labels of an axis, with as many digits as it takes to tell them apart. */
export function axisTexts(values) {
  for (let digits = 3; ; digits += 1) {
    const format = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: digits });
    const texts = values.map((value) => format.format(value));
    if (new Set(texts).size === texts.length || digits === 17) return texts;
  }
}

/** A rate: 12,300/s. */
export const perSecond = (value) =>
  value === null ? "–" : `${value >= 100 ? whole.format(value) : three.format(value)}/s`;

/** Bytes in powers of 1,024. */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (value >= 1024 && power < units.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${three.format(value)} ${units[power]}`;
}

/** How many keys; at least so many, while no record has come to some of the partitions. */
export const keysText = ({ keys, keysAreAll }) => `${keysAreAll || keys === null ? "" : "≥ "}${number(keys)}`;

/** A duration that the API takes as well: the largest unit that fits without a rest. */
export function duration(ms) {
  const [unit, size] = UNITS.find(([, size]) => ms % size === 0 && ms >= size) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

/** About how long, in at most two units: 3 d 4 h. */
export function howLong(ms) {
  const at = UNITS.findIndex(([, size]) => ms >= size);
  if (at < 0) return "0 s";
  if (at >= 3) return `${three.format(ms / 1000)} s`;
  const [[unit, size], [lower, part]] = [UNITS[at], UNITS[at + 1]];
  const rest = Math.floor((ms % size) / part);
  return `${whole.format(Math.floor(ms / size))} ${unit}${rest ? ` ${rest} ${lower}` : ""}`;
}

/** A window's length as the API takes it: 36h, or 500 events. */
export const lengthText = (length, ofEvents) => (ofEvents ? `${length} events` : duration(length));

/** The same, to be read aloud: 36 hours. */
export function lengthWords(length, ofEvents) {
  if (ofEvents) return `${whole.format(length)} ${length === 1 ? "event" : "events"}`;
  const [, count, unit] = /^(\d+)(\D+)$/.exec(duration(length));
  return `${whole.format(Number(count))} ${WORDS[unit]}${count === "1" ? "" : "s"}`;
}

/** The length that such a text means, or null. */
export function parseLength(text, ofEvents) {
  const match = ofEvents
    ? /^\s*(\d[\d_,]*)\s*(?:events?)?\s*$/.exec(text)
    : /^\s*(\d+)\s*(ms|s|m|h|d)\s*$/.exec(text);
  if (!match) return null;
  const count = Number(match[1].replace(/[_,]/g, ""));
  return ofEvents ? count : count * UNITS.find(([unit]) => unit === match[2])[1];
}

const ZONE = "slidestat-zone";
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The zones that can be chosen: UTC, and the viewer's. */
export const ZONES = [...new Set(["UTC", OWN_ZONE])];

/** Keep the choice of a zone, for the next time the page is loaded as well. */
export function keepZone(zone) {
  try {
    localStorage.setItem(ZONE, zone === "UTC" ? "UTC" : "own");
  } catch {
    // The browser keeps nothing for pages.
  }
}

function keptZone() {
  try {
    return localStorage.getItem(ZONE) === "own" ? OWN_ZONE : "UTC";
  } catch {
    return "UTC";
  }
}

/** The zone that times are shown in. */
export const zone = keptZone();

const clock = new Intl.DateTimeFormat("en", {
  timeZone: zone,
  hourCycle: "h23",
  ...Object.fromEntries(["month", "day", "hour", "minute", "second"].map((part) => [part, "2-digit"])),
  year: "numeric",
  timeZoneName: "longOffset",
});

function parts(ms) {
  const found = Object.fromEntries(clock.formatToParts(ms).map(({ type, value }) => [type, value]));
  const { year, month, day, hour, minute, second, timeZoneName } = found;
  const offset = timeZoneName.replace("GMT", "") || "+00:00";
  return { time: `${year}-${month}-${day} ${hour}:${minute}:${second}`, offset };
}

/** 2001-02-06 16:00:00, in the zone that is shown. */
export const time = (ms) => parts(ms).time;

/** The same with what it is in: UTC, or +01:00, as an hour comes twice when clocks go back. */
export function timeIn(ms) {
  const { time: written, offset } = parts(ms);
  return `${written} ${zone === "UTC" ? "UTC" : offset}`;
}

/** An event time, or the number of a sequence that is given in its place. */
export const timeOrNumber = (ms, seq) => (seq === undefined ? timeIn(ms) : whole.format(seq));

/** 1 key, 2 keys. */
export const count = (number, word) => `${whole.format(number)} ${word}${number === 1 ? "" : "s"}`;

/** What tells a figure from the others of its window: quantile 0.99, histogram [0, 10). */
export function figureName(figure) {
  let name = figure.statistic;
  if (figure.quantile !== undefined) name += ` ${figure.quantile}`;
  if (figure.at_least !== undefined || figure.below !== undefined) {
    const left = figure.at_least === undefined ? "(−∞" : `[${figure.at_least}`;
    name += ` ${left}, ${figure.below === undefined ? "∞" : figure.below})`;
  }
  return figure.item === undefined ? name : `${name} ${figure.item}`;
}

/** The name or the length of its window; undefined of derived figures and of totals. */
export const windowOf = ({ window, window_ms: time, window_events: events }) => window ?? time ?? events;

const percent = (share) => `${three.format(share * 100)} %`;

// Below it, a relative error is that of floating-point numbers.
const ROUNDING = 1e-9;

/** What is promised of a figure's error. */
export function promise(figure, isSequence) {
  const terms = [];
  if (figure.relative_error > ROUNDING) terms.push(percent(figure.relative_error));
  if (figure.absolute_error > ROUNDING * Math.abs(figure.estimate)) terms.push(three.format(figure.absolute_error));
  if (figure.share_error) {
    const what = figure.quantile === undefined ? "of the events" : "of rank";
    terms.push(`${percent(figure.share_error)} ${what}`);
  }
  if (figure.deviation_error) terms.push(`${percent(figure.deviation_error)} of a deviation`);
  if (figure.magnitude_error) terms.push(`${percent(figure.magnitude_error)} of the magnitudes`);
  const from = figure.counted_from_ms;
  const since = from === undefined ? "" : ` since ${isSequence ? timeOrNumber(undefined, from) : timeOrNumber(from)}`;
  if (figure.derived) return `${figure.estimate === null ? "none" : "within its bounds"}${since}`;
  if (!terms.length) return `${figure.estimate === null ? "none" : "exact"}${since}`;
  const sure = figure.confidence === undefined ? "" : `, in ${percent(figure.confidence)} of cases`;
  return `± ${terms.join(" + ")}${sure}${since}`;
}
