// The list of keys: a page at a time, of those that begin with what is typed.

import * as api from "./api.js";
import { byId, h, say } from "./dom.js";

const PAGE = 50;
const TYPING_MS = 200;

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
    byId("keys-first").addEventListener("click", () => this.turn(""));
    byId("keys-next").addEventListener("click", () => this.turn(this.next));
  }

  of(topology) {
    this.topology = topology;
    byId("prefix").value = "";
    byId("keys").replaceChildren();
    return this.turn("");
  }

  /** Go to the page of the keys after `after`. */
  turn(after) {
    this.after = after;
    return this.refresh();
  }

  async refresh() {
    const asked = (this.asked += 1);
    const prefix = byId("prefix").value;
    let page;
    try {
      page = await api.keys(this.topology, { prefix, after: this.after, limit: PAGE });
    } catch (error) {
      if (asked === this.asked) {
        this.showMessage(error.message);
        this.failed(error);
      }
      return;
    }
    if (asked !== this.asked) return; // Something else was typed meanwhile.
    this.showMessage(page.keys.length ? "" : prefix || this.after ? "No key begins so." : "No keys yet.");
    this.show(page.keys);
    this.next = page.next_after;
    byId("keys-next").disabled = page.next_after === null;
    byId("keys-first").disabled = this.after === "";
  }

  showMessage(text) {
    say(byId("keys-error"), text);
    byId("keys-error").hidden = !text;
  }

  /** Keep the entries that stay: one of them may have the focus. */
  show(keys) {
    const list = byId("keys");
    while (list.children.length > keys.length) list.lastChild.remove();
    keys.forEach((key, i) => {
      const button =
        list.children[i]?.firstChild ??
        list.appendChild(h("li", {}, h("button", { type: "button", click: (e) => this.choose(e.currentTarget.value) })))
          .firstChild;
      button.value = key;
      say(button, key);
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
