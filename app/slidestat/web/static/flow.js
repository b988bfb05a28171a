// The topology as a picture: topics, workers and table, with rates on the arrows.

import { byId, h, say, svg } from "./dom.js";
import { bytes, keysText, perSecond } from "./format.js";

const HEIGHT = 58;

// Where the middle of each box is, in a wide and in a narrow picture.
const WIDE = {
  size: [900, 264],
  width: 190,
  letters: 25,
  source: [105, 80], workers: [430, 80], table: [430, 220],
  output: [790, 40], late: [790, 130], dead: [790, 220],
};
const NARROW = {
  size: [450, 350],
  width: 156,
  letters: 19,
  source: [82, 50], workers: [82, 180], table: [82, 310],
  output: [368, 50], late: [368, 180], dead: [368, 310],
};
const NARROW_BELOW = 640;

/** A picture in the element `flow`, redrawn when there is another topology or another width. */
export class Flow {
  constructor() {
    this.element = byId("flow");
    this.texts = {};
    new ResizeObserver(() => this.layout !== this.fitting() && this.draw()).observe(this.element);
  }

  fitting() {
    return this.element.clientWidth < NARROW_BELOW ? NARROW : WIDE;
  }

  of(topology) {
    this.topology = topology;
    this.draw();
  }

  draw() {
    if (!this.topology) return;
    const layout = (this.layout = this.fitting());
    const { source, name, table, output, late_topic, dead_letter_topic } = this.topology;
    this.texts = {};
    const picture = svg(
      "svg",
      { viewBox: `0 0 ${layout.size.join(" ")}`, role: "img", "aria-labelledby": "flow-words" },
      (this.words = svg("title", { id: "flow-words" })),
      svg(
        "defs",
        {},
        svg(
          "marker",
          { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" },
          svg("path", { d: "M0 0 8 4 0 8Z", class: "tip" }),
        ),
      ),
      this.arrow("read", "source", "workers"),
      this.arrow("counted", "workers", "table"),
      this.arrow("emitted", "workers", "output"),
      this.arrow("late", "workers", "late"),
      this.arrow("dead", "workers", "dead"),
      this.box("source", "topic", source),
      this.box("workers", "workers", name),
      this.box("table", "table", table),
      this.box("output", "topic", output),
      this.box("late", "topic", late_topic),
      this.box("dead", "topic", dead_letter_topic),
    );
    this.element.replaceChildren(picture);
    if (this.last) this.show(this.last);
  }

  box(place, kind, name) {
    const [x, y] = this.layout[place];
    const { width, letters } = this.layout;
    const shown = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
    const [left, top] = [x - width / 2, y - HEIGHT / 2];
    this.texts[`${place}-kind`] = svg("text", { x, y: y - 7, class: "kind" }, kind);
    return svg(
      "g",
      { class: `box ${kind}` },
      svg("title", {}, name),
      svg("rect", { x: left, y: top, width, height: HEIGHT, rx: kind === "workers" ? 14 : 5 }),
      this.texts[`${place}-kind`],
      svg("text", { x, y: y + 14 }, shown),
    );
  }

  /** An arrow from box to box, with a place for its rate in the middle. */
  arrow(rate, from, to) {
    const [[x1, y1], [x2, y2]] = this.ends(this.layout[from], this.layout[to]);
    const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
    this.texts[rate] = svg("text", { x, y: y + 4, class: "rate" }, "–");
    return svg(
      "g",
      {},
      svg("line", { x1, y1, x2, y2, class: "arrow", "marker-end": "url(#tip)" }),
      this.texts[rate],
    );
  }

  ends([x1, y1], [x2, y2]) {
    const { width } = this.layout;
    if (x2 > x1) return [[x1 + width / 2, y1], [x2 - width / 2, y2]];
    return [[x1, y1 + HEIGHT / 2], [x2, y2 - HEIGHT / 2]];
  }

  /** Put in what comes and goes. */
  show(now) {
    this.last = now;
    const { rates, totals, workers } = now;
    for (const rate of ["read", "counted", "emitted", "late", "dead"]) {
      say(this.texts[rate], perSecond(rates[rate]));
    }
    say(this.texts["workers-kind"], workers === 1 ? "1 worker" : `${workers} workers`);
    say(this.texts["table-kind"], `${keysText(totals)} keys, ${bytes(totals.state)}`);
    say(
      this.words,
      `${this.topology.source}: ${perSecond(rates.read)} read; ${perSecond(rates.counted)} counted` +
        ` into ${keysText(totals)} keys; ${perSecond(rates.emitted)} emitted to` +
        ` ${this.topology.output}; ${perSecond(rates.late)} late; ${perSecond(rates.dead)} dead`,
    );
  }
}

/** All topics that are read and written, each with a link to those topologies that it also is of. */
export function showTopics(topology, topologies, linkTo) {
  const others = topologies.filter(({ name }) => name !== topology.name);
  const linked = (topic) => [
    h("code", {}, topic),
    ...others
      .filter(({ reads, writes }) => reads.includes(topic) || writes.includes(topic))
      .flatMap(({ name, writes }) => [
        writes.includes(topic) ? ", written by " : ", read by ",
        h("a", { href: linkTo(name) }, name),
      ]),
  ];
  const listed = (word, topics) =>
    h("div", {}, h("dt", {}, word), ...topics.map((topic) => h("dd", {}, ...linked(topic))));
  byId("topics").replaceChildren(listed("reads", topology.reads), listed("writes", topology.writes));
}
