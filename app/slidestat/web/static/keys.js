// The list of keys: a page at a time, of those that begin with what is typed, or by a figure.

import * as api from "./api.js";
import { byId, h, say } from "./dom.js";
import { lowerText, number, upperText } from "./format.js";

const PAGE = 50;
const TYPING_MS = 200;
// A ranking looks at all keys: one that took longer is asked for again by hand alone.
const QUICK_MS = 500;

/** Calls `choose(key)` for a key that is clicked; `failed(error)` for what concerns the whole page. */
export class Keys {
  constructor(choose, failed) {
    this.choose = choose;
    this.failed = failed;
    this.asked = 0;
    this.after = "";
    byId("prefix").addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.turn(""), TYPING_MS);
    });
    for (const id of ["by", "order"]) byId(id).addEventListener("change", () => this.turn(""));
    byId("keys-first").addEventListener("click", () => this.turn(""));
    byId("keys-next").addEventListener("click", () => this.turn(this.next));
  }

  of({ name, figures }) {
    this.topology = name;
    byId("prefix").value = "";
    const options = figures.map((figure) => h("option", { value: figure }, figure));
    byId("by").replaceChildren(h("option", { value: "" }, "key"), ...options);
    byId("ranked").hidden = !figures.length;
    byId("keys").replaceChildren();
    return this.turn("");
  }

  /** Go to the page of the keys after `after`. */
  turn(after) {
    this.after = after;
    this.tookMs = 0;
    return this.refresh();
  }

  async refresh() {
    const by = byId("by").value;
    if (by && !(this.tookMs < QUICK_MS)) return; // Asked for, or too slow.
    const asked = (this.asked += 1);
    const prefix = byId("prefix").value;
    byId("prefix").disabled = Boolean(by);
    byId("order").disabled = !by;
    const began = Date.now();
    this.tookMs = by ? Infinity : 0;
    let page;
    try {
      page = by
        ? await this.ranking(by)
        : await api.keys(this.topology, { prefix, after: this.after, limit: PAGE });
    } catch (error) {
      if (asked === this.asked) {
        this.showMessage(error.message);
        this.failed(error);
      }
      return;
    }
    if (asked !== this.asked) return; // Something else was typed meanwhile.
    this.tookMs = Date.now() - began;
    const none = by ? "No key has this figure." : prefix || this.after ? "No key begins so." : "No keys yet.";
    this.showMessage(page.keys.length ? "" : none);
    this.show(page.keys, page.notes);
    this.next = page.next_after;
    byId("keys-next").disabled = page.next_after === null;
    byId("keys-first").disabled = this.after === "";
  }

  /** The first page of a ranking, with figure and places of each key. */
  async ranking(by) {
    const { places } = await api.ranking(this.topology, { by, [byId("order").value]: PAGE });
    return {
      keys: places.map(({ key }) => key),
      notes: places.map(({ first_place: first, last_place: last, figure: { estimate, lower, upper } }) => {
        const place = first === last ? `${first}` : `${first} to ${last ?? "?"}`;
        return `${place}: ${number(estimate)} in [${lowerText(lower)}, ${upperText(upper)}]`;
      }),
      next_after: null,
    };
  }

  showMessage(text) {
    say(byId("keys-error"), text);
    byId("keys-error").hidden = !text;
  }

  /** Keep the entries that stay: one of them may have the focus. */
  show(keys, notes = []) {
    const list = byId("keys");
    while (list.children.length > keys.length) list.lastChild.remove();
    keys.forEach((key, i) => {
      const button =
        list.children[i]?.firstChild ??
        list.appendChild(h("li", {}, h("button", { type: "button", click: (e) => this.choose(e.currentTarget.value) })))
          .firstChild;
      button.value = key;
      say(button, key);
      const note = button.nextSibling ?? button.parentNode.appendChild(h("span", { class: "note" }));
      say(note, notes[i] ?? "");
    });
    this.mark(this.chosen);
  }

  /** Show which key is open. */
  mark(key) {
    this.chosen = key;
    for (const { firstChild: button } of byId("keys").children) {
      if (button.value === key) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }
}
