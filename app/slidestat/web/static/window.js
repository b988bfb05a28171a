// The length of the window: a slider over all lengths up to the span, a text, and those written out;
// and how long before those windows ended that it is compared with.

import { byId, h, say } from "./dom.js";
import { lengthText, lengthWords, parseLength, windowOf } from "./format.js";

const STEPS = 300;
// Rounded to a unit below these lengths: what a slider says is easy to read, and to say again.
const ROUND = [[600_000, 1_000], [36_000_000, 60_000], [864_000_000, 3_600_000], [Infinity, 86_400_000]];

const isNamed = (window) => ["this_hour", "today", "this_week"].includes(window);

/** Calls `changed()` when another length is chosen. */
export class Window {
  constructor(changed) {
    this.changed = changed;
    this.slider = byId("window-slider");
    this.text = byId("window-text");
    this.slider.addEventListener("input", () => this.choose(this.lengths[this.slider.value]));
    this.text.addEventListener("change", () => this.read());
  }

  /** Lengths up to a topology's span; `chosen` is a text, or null for the shortest written out. */
  of(topology, chosen) {
    this.ofEvents = topology.span_ms === null;
    this.most = topology.span_events ?? topology.span_ms;
    this.least = this.ofEvents ? 1 : Math.min(1_000, this.most);
    // Each step of the slider is another length.
    this.lengths = this.along(STEPS);
    this.slider.max = this.lengths.length - 1;
    this.presets = topology.windows.map((text) => this.parsed(text) ?? text);
    byId("window-presets").replaceChildren(
      ...this.presets.map((length) =>
        h("button", { type: "button", click: () => this.choose(length) }, this.textOf(length)),
      ),
    );
    const length = chosen === null ? null : this.parsed(chosen);
    this.set(this.isAllowed(length) ? length : this.presets[0]);
  }

  /** A length, or the name of a window of the calendar: such as it is written, "today". */
  parsed(text) {
    return isNamed(text) ? text : parseLength(text, this.ofEvents);
  }

  isAllowed(length) {
    return length && (isNamed(length) ? this.presets.includes(length) : length <= this.most);
  }

  textOf(length) {
    return isNamed(length) ? length : lengthText(length, this.ofEvents);
  }

  /** The length at a share of the way from the shortest to the longest, by its logarithm. */
  at(share) {
    const length = this.least * (this.most / this.least) ** share;
    const [, unit] = this.ofEvents ? [0, 1] : ROUND.find(([below]) => length < below);
    const rounded = Math.round(length / unit) * unit;
    return Math.min(this.most, Math.max(this.least, share === 1 ? this.most : rounded));
  }

  /** Lengths from the shortest to the longest, evenly along that way, each once. */
  along(count) {
    const lengths = Array.from({ length: count }, (_, i) => this.at(i / (count - 1)));
    return [...new Set(lengths)];
  }

  read() {
    const length = this.parsed(this.text.value.trim());
    if (this.isAllowed(length)) {
      this.choose(length);
      return;
    }
    const example = this.ofEvents ? "500 events" : "36h";
    this.showMessage(`Write a length up to ${lengthText(this.most, this.ofEvents)}, such as ${example}.`);
  }

  choose(length) {
    if (length === this.length) return;
    this.set(length);
    this.changed();
  }

  set(length) {
    this.length = length;
    this.showMessage("");
    this.text.value = this.textOf(length);
    this.slider.value = Math.max(0, this.lengths.findLastIndex((shorter) => shorter <= length));
    this.slider.setAttribute("aria-valuetext", isNamed(length) ? length : lengthWords(length, this.ofEvents));
    for (const button of byId("window-presets").children) {
      button.setAttribute("aria-pressed", String(button.textContent === this.text.value));
    }
  }

  showMessage(text) {
    say(byId("window-error"), text);
    byId("window-error").hidden = !text;
    this.text.setAttribute("aria-invalid", String(Boolean(text)));
  }

  /** Whether windows of this length are written out. */
  get isWritten() {
    return this.presets.includes(this.length);
  }

  /** Whether a figure is of this window, or of none. One of the calendar has any length. */
  isOf(figure) {
    return (windowOf(figure) ?? this.length) === this.length;
  }

  get asText() {
    return this.textOf(this.length);
  }
}

/** How long before other windows ended, 0 for none; calls `changed()` when that is another. */
export class Before {
  constructor(changed) {
    this.changed = changed;
    this.text = byId("ago-text");
    this.text.addEventListener("change", () => this.read());
  }

  /** Lengths below a topology's span; `chosen` is a text, or null. A key's last events have no past. */
  of(topology, chosen) {
    this.ofEvents = topology.span_ms === null;
    this.most = topology.span_events ?? topology.span_ms;
    this.text.disabled = this.ofEvents && topology.every_seq === null;
    const length = this.text.disabled || chosen === null ? null : parseLength(chosen, this.ofEvents);
    this.set(length && length < this.most ? length : 0);
  }

  read() {
    const isNone = this.text.value.trim() === "";
    const length = isNone ? 0 : parseLength(this.text.value, this.ofEvents);
    if (length === null || length >= this.most || (length === 0 && !isNone)) {
      this.showMessage(`Write a length below ${lengthText(this.most, this.ofEvents)}, or nothing.`);
    } else if (length !== this.length) {
      this.set(length);
      this.changed();
    }
  }

  set(length) {
    this.length = length;
    this.showMessage("");
    this.text.value = this.asText;
  }

  /** Whether there is a length with which windows of another one can be asked for; says if not. */
  isWith(window) {
    // How long one of the calendar may be, the server knows.
    if (isNamed(window.length)) return this.length > 0;
    const fits = window.length + this.length <= this.most;
    const most = lengthText(this.most, this.ofEvents);
    if (this.length && !fits) this.showMessage(`Window and Before together are at most ${most}.`);
    return this.length > 0 && fits;
  }

  showMessage(text) {
    say(byId("ago-error"), text);
    byId("ago-error").hidden = !text;
    this.text.setAttribute("aria-invalid", String(Boolean(text)));
  }

  get asText() {
    return this.length ? lengthText(this.length, this.ofEvents) : "";
  }
}
