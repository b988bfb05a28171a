// The overview: a table of keys, those with a firing alert first, in their own order or by a figure,
// and the figures of one window. Beside an open key it is a list of names.

import * as api from "./api.js";
import { byId, h, say } from "./dom.js";
import { count, lowerText, number, upperText } from "./format.js";

const PAGE = 50;
const MOST_COLUMNS = 12;
const TYPING_MS = 200;
// A ranking looks at all keys: one that took longer is asked for anew only when something is chosen.
const QUICK_MS = 500;
// Of one question for a table: figures, as the worker allows, and characters that proxies let pass.
const MOST_FIGURES = 500;
const LONGEST_QUERY = 6_000;

const ALL_WINDOWS = "";
const NOTHING_CHOSEN = { by: "", order: "largest", begins: "", firing: "", of: null };

/** How the names of a window's figures end, as a declaration has them: _5m, _1000_events. */
const endOf = (window) => `_${window.trim().replace(/\s+(?=(?:ms|s|m|h|d)$)/, "").replace(/\W/g, "_")}`;

/** Calls `choose(key)` for a key that is clicked, `moved()` when something else is shown of keys, and
 * `failed(error)` for what concerns the whole page; `linkTo(choice)` is the address of a choice.
 */
export class Keys {
  constructor({ choose, moved, failed, linkTo }) {
    Object.assign(this, { choose, moved, failed, linkTo });
    this.asked = 0;
    this.after = "";
    this.alerts = new Map();
    byId("prefix").addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.change({ begins: byId("prefix").value }), TYPING_MS);
    });
    byId("by").addEventListener("change", () => this.change({ by: byId("by").value }));
    byId("order").addEventListener("change", () => this.change({ order: byId("order").value }));
    byId("columns").addEventListener("change", () => this.change({ of: byId("columns").value }));
    byId("keys-first").addEventListener("click", () => this.turn(""));
    byId("keys-next").addEventListener("click", () => this.turn(this.next));
  }

  /** Show the keys of a topology, as was chosen: what is missing in `choice` is as at first. */
  of(topology, choice) {
    const isOther = topology !== this.topology;
    const before = JSON.stringify(this.choice);
    this.topology = topology;
    this.figures = figuresOf(topology);
    this.choice = { ...NOTHING_CHOSEN, ...choice };
    if (!topology.figures.includes(this.choice.by)) this.choice.by = "";
    if (!this.windows().includes(this.choice.of)) this.choice.of = topology.windows[0];
    if (isOther) {
      this.alerts = new Map();
      byId("by").replaceChildren(
        h("option", { value: "" }, "key"),
        ...this.figures.map((figure) => h("option", { value: figure }, figure)),
      );
      byId("columns").replaceChildren(
        ...topology.windows.map((window) => h("option", { value: window }, window)),
        h("option", { value: ALL_WINDOWS }, "all"),
      );
      for (const id of ["ranked", "windows"]) byId(id).hidden = !this.figures.length;
      byId("keys").replaceChildren();
    }
    byId("by").value = this.choice.by;
    byId("order").value = this.choice.order;
    byId("columns").value = this.choice.of;
    if (byId("prefix").value !== this.choice.begins) byId("prefix").value = this.choice.begins;
    if (isOther || before !== JSON.stringify(this.choice)) return this.turn("");
    return undefined;
  }

  windows() {
    return [...this.topology.windows, ALL_WINDOWS];
  }

  /** What differs from the first choice, for the address. */
  get chosenOf() {
    const of = this.choice.of === this.topology.windows[0] ? null : this.choice.of;
    return Object.fromEntries(
      Object.entries({ ...this.choice, of }).filter(([name, value]) => value !== NOTHING_CHOSEN[name]),
    );
  }

  change(choice) {
    this.of(this.topology, { ...this.choice, ...choice });
    this.moved();
  }

  /** Go to the page of the keys after `after`. */
  turn(after) {
    this.after = after;
    this.ranked = undefined;
    return this.refresh();
  }

  /** Take for how many keys each alert fires, and ask anew if that has changed. */
  fire(alerts) {
    const before = JSON.stringify([...this.alerts]);
    this.alerts = alerts;
    if (before !== JSON.stringify([...alerts])) this.refresh();
    this.showAlerts();
  }

  /** Each alert that fires leads to its keys, and from there back to all. */
  showAlerts() {
    byId("firing").hidden = !this.alerts.size;
    const fires = [...this.alerts].filter(([, keys]) => keys);
    byId("firing").dataset.fires = String(fires.length > 0);
    // What is chosen stays in sight when it fires no more.
    const chosen = this.choice.firing;
    if (chosen && !fires.some(([alert]) => alert === chosen)) fires.push([chosen, 0]);
    const told = JSON.stringify([fires, this.chosenOf]);
    const place = byId("total-firing");
    if (place.dataset.told === told) return; // A link that has the focus keeps it.
    place.dataset.told = told;
    const links = fires.map(([alert, keys]) => {
      const isChosen = alert === chosen;
      const href = this.linkTo({ ...this.chosenOf, firing: isChosen ? "" : alert });
      const title = isChosen ? "Show all keys again" : "Show these keys alone";
      return h("a", { href, title, "aria-current": isChosen && "true" }, `${alert}: ${count(keys, "key")}`);
    });
    place.replaceChildren(...(links.length ? links.flatMap((link, i) => (i ? [", ", link] : [link])) : ["none fires"]));
  }

  async refresh() {
    const { by, begins, firing } = this.choice;
    const asked = (this.asked += 1);
    byId("prefix").disabled = Boolean(by) && !firing;
    byId("order").disabled = !by;
    let page;
    try {
      page = await this.page();
      page.rows = await this.rows(page.keys);
    } catch (error) {
      if (asked === this.asked) {
        this.showMessage(error.message);
        this.failed(error);
      }
      return;
    }
    if (asked !== this.asked) return; // Something else was chosen meanwhile.
    const none = firing
      ? `${firing} fires for no key.`
      : by ? "No key has this figure." : begins || this.after ? "No key begins so." : "No keys yet.";
    this.showMessage(page.keys.length ? "" : none);
    this.show(page);
    this.next = page.next_after;
    byId("keys-next").disabled = page.next_after === null;
    byId("keys-first").disabled = this.after === "";
  }

  /** Which keys are shown: those for which an alert fires are before the others of the first page. */
  async page() {
    const { by, begins: prefix, firing } = this.choice;
    const { name } = this.topology;
    const after = this.after;
    if (firing) return this.sorted(await api.keys(name, { prefix, after, limit: PAGE, firing }));
    const alerts = [...this.alerts].filter(([, keys]) => keys).map(([alert]) => alert);
    const [first, others] = await Promise.all([
      alerts.length && after === ""
        ? api.keys(name, { ...(by ? {} : { prefix }), limit: PAGE, firing: alerts })
        : { keys: [] },
      by ? this.ranking(by) : api.keys(name, { prefix, after, limit: PAGE }),
    ]);
    await this.sorted(first);
    const fires = new Set(first.keys);
    const keys = [...fires, ...others.keys.filter((key) => !fires.has(key))];
    return { ...others, keys, fires, isCut: typeof first.next_after === "string" };
  }

  /** Put keys of which all are known in the order of the figure. */
  async sorted(page) {
    const { by, order } = this.choice;
    if (by && page.keys.length) {
      const rows = await this.table(page.keys, [by]);
      const turn = order === "largest" ? -1 : 1;
      const of = (key) => rows.get(key)?.figures[by]?.estimate ?? turn * Infinity; // Without one a key is last.
      page.keys.sort((one, other) => turn * (of(one) - of(other)) || (one < other ? -1 : 1));
    }
    return page;
  }

  /** The first page of a ranking, with figure and places of each key; the last one if it took long. */
  async ranking(by) {
    if (!this.ranked || this.ranked.tookMs < QUICK_MS) {
      const began = Date.now();
      const { places } = await api.ranking(this.topology.name, { by, [this.choice.order]: PAGE });
      this.ranked = { places, tookMs: Date.now() - began };
    }
    const { places } = this.ranked;
    return {
      keys: places.map(({ key }) => key),
      places: new Map(places.map((place) => [place.key, place])),
      next_after: null,
    };
  }

  /** The figures in the columns: that of the order is the first of them. */
  get columns() {
    const { by, of } = this.choice;
    const ends = this.topology.windows.map(endOf);
    const ofWindow = (figure) =>
      of === ALL_WINDOWS || figure.endsWith(endOf(of)) || !ends.some((end) => figure.endsWith(end));
    const shown = this.figures.filter((figure) => figure !== by && ofWindow(figure));
    return [...(by ? [by] : []), ...shown].slice(0, MOST_COLUMNS);
  }

  /** The rows of keys, none beside an open key, where their names alone are shown. */
  async rows(keys) {
    const isWanted = this.chosen === undefined && keys.length && this.columns.length;
    return isWanted ? this.table(keys, this.columns) : new Map();
  }

  async table(keys, figures) {
    const rows = new Map();
    const most = Math.floor(MOST_FIGURES / figures.length);
    const rest = [...keys];
    while (rest.length) {
      const some = [];
      let length = encodeURIComponent(figures.join("&figure=")).length;
      while (rest.length && some.length < Math.min(most, PAGE)) {
        length += encodeURIComponent(rest[0]).length + 5;
        if (some.length && length > LONGEST_QUERY) break;
        some.push(rest.shift());
      }
      const found = await api.table(this.topology.name, { key: some, figure: figures });
      for (const row of found.rows) rows.set(row.key, row);
    }
    return rows;
  }

  showMessage(text) {
    say(byId("keys-error"), text);
    byId("keys-error").hidden = !text;
  }

  /** Keep the rows that stay: one of them may have the focus. */
  show({ keys, rows, places, fires, isCut }) {
    const isOverview = this.chosen === undefined;
    const columns = isOverview ? this.columns : [];
    this.showHead(columns);
    const body = byId("keys");
    while (body.rows.length > keys.length) body.deleteRow(-1);
    keys.forEach((key, i) => {
      const row = body.rows[i] ?? body.appendChild(this.newRow());
      const found = rows.get(key);
      const place = places?.get(key);
      row.dataset.fires = String(Boolean(found?.firing.length || fires?.has(key) || this.choice.firing));
      const [name] = row.cells;
      const [where, button, alerts] = name.children;
      say(where, place && isOverview ? placeText(place) : "");
      button.value = key;
      say(button, key);
      say(alerts, (found?.firing ?? []).join(", "));
      while (row.cells.length > columns.length + 1) row.deleteCell(-1);
      columns.forEach((column, j) => {
        const cell = row.cells[j + 1] ?? row.appendChild(h("td", {}, h("b"), h("span", { class: "bounds" })));
        const figure = j === 0 && place ? place.figure : found?.figures[column];
        say(cell.firstChild, figure ? number(figure.estimate) : "–");
        say(cell.lastChild, figure ? boundsText(figure) : "");
        cell.title = figure?.counted_from_ms === undefined ? "" : "of a statistic that was added: not of the whole window";
      });
    });
    const some = isCut ? `The first ${fires.size} of the keys for which alerts fire are on top; the alerts lead to all.` : "";
    const more = this.figures.length > columns.length && isOverview && columns.length === MOST_COLUMNS
      ? `The first ${MOST_COLUMNS} figures; a key has them all.` : "";
    say(byId("keys-hint"), [some, more].filter(Boolean).join(" "));
    this.mark(this.chosen);
  }

  newRow() {
    const button = h("button", { type: "button", click: (e) => this.choose(e.currentTarget.value) });
    const name = h("th", { scope: "row" }, h("span", { class: "place" }), button, h("span", { class: "fires" }));
    return h("tr", {}, name);
  }

  /** A click on a figure's name puts the keys in its order, a second one turns the order round. */
  showHead(columns) {
    const { by, order } = this.choice;
    const told = JSON.stringify([columns, this.choice]);
    const head = byId("keys-head");
    if (head.dataset.told === told) return;
    const focused = document.activeElement?.closest("#keys-head button")?.value;
    head.dataset.told = told;
    const title = (value, text) => {
      const isBy = value === by;
      const turned = isBy && value && order === "largest" ? "smallest" : "largest";
      const click = () => this.change({ by: value, order: turned });
      const sort = !isBy ? false : order === "smallest" || !value ? "ascending" : "descending";
      return h("th", { scope: "col", "aria-sort": sort }, h("button", { type: "button", value, click }, text));
    };
    // The window is chosen above: the names of its figures do without it.
    const short = (name) => (this.choice.of && name.endsWith(endOf(this.choice.of)) ? name.slice(0, -endOf(this.choice.of).length) : name);
    head.replaceChildren(title("", "key"), ...columns.map((column) => title(column, short(column))));
    if (focused !== undefined) [...head.querySelectorAll("button")].find(({ value }) => value === focused)?.focus();
  }

  /** Show which key is open; the overview comes back with its figures when none is. */
  mark(key) {
    const changes = (this.chosen === undefined) !== (key === undefined);
    this.chosen = key;
    byId("explore").dataset.open = String(key !== undefined);
    for (const { cells } of byId("keys").rows) {
      const button = cells[0].querySelector("button");
      if (button.value === key) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    if (changes && this.topology) this.refresh();
  }
}

/** The figures by which keys are ranked; of two names of one figure the longer one. */
function figuresOf({ figures, windows }) {
  return figures.filter((figure) => windows.length !== 1 || !figures.includes(figure + endOf(windows[0])));
}

const placeText = ({ first_place: first, last_place: last }) => (first === last ? `${first}` : `${first} to ${last ?? "?"}`);

/** Nothing for an exact figure. */
function boundsText({ estimate, lower, upper }) {
  return estimate === null || (lower === estimate && upper === estimate) ? "" : `${lowerText(lower)} to ${upperText(upper)}`;
}
