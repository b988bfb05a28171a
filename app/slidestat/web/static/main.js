// The page: what is shown stands in the address behind the #, and is asked again every two seconds.

import * as api from "./api.js";
import { byId, h, say } from "./dom.js";
import { Flow, showTopics } from "./flow.js";
import { keepZone, timeIn, zone, ZONES } from "./format.js";
import { Key } from "./key.js";
import { Keys } from "./keys.js";
import { firingOf, Status } from "./status.js";

const EVERY_MS = 2_000;
// Keys come and go more slowly than figures.
const KEYS_EVERY = 5;

let topologies = [];
let topology;
let rounds = 0;
let answeredAt;

const flow = new Flow();
const status = new Status(flow);
const keys = new Keys({
  choose: (key) => goTo(topology.name, key),
  moved: () => remember(),
  failed,
  linkTo: (choice) => address(topology.name, undefined, choice),
});
const key = new Key(remember, failed);

// What is chosen of a key, and of the overview.
const OF_KEY = ["window", "series", "ago"];
const OF_KEYS = ["by", "order", "firing", "begins", "of"];

/** #/TOPOLOGY/KEY?window=5m&series=count&ago=24h&by=p99_5m */
function address(name, chosen, choices) {
  const given = Object.entries(choices).filter(([each, text]) => text || (each === "of" && text === ""));
  const parameters = new URLSearchParams(given);
  const path = [name, chosen].filter((part) => part !== undefined).map(encodeURIComponent);
  return `#/${path.join("/")}${parameters.size ? `?${parameters}` : ""}`;
}

function place() {
  const [path, parameters] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, chosen] = path.split("/").map(decoded);
  const asked = new URLSearchParams(parameters ?? "");
  const [window, series, ago] = OF_KEY.map((each) => asked.get(each));
  const ofKeys = Object.fromEntries(OF_KEYS.filter((each) => asked.has(each)).map((each) => [each, asked.get(each)]));
  return { name, chosen, window, series, ago, ofKeys };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function goTo(name, chosen) {
  location.hash = address(name, chosen, name === topology.name ? choices() : { series: key.series });
}

function choices() {
  const ofKey = key.key === undefined ? {} : { window: key.window.asText, ago: key.before.asText };
  return { ...ofKey, series: key.series, ...keys.chosenOf };
}

/** What was chosen goes into the address, but is no step to go back to. */
function remember() {
  history.replaceState(null, "", address(topology.name, key.key, choices()));
  byId("all-keys").href = address(topology.name, undefined, keys.chosenOf);
  keys.showAlerts();
}

/** Show what the address says. */
async function follow() {
  if (!topologies.length) return;
  const asked = place();
  const found = topologies.find(({ name }) => name === asked.name) ?? topologies[0];
  if (found !== topology) {
    topology = found;
    byId("topology").value = topology.name;
    status.clear();
    flow.of(topology);
    showTopics(topology, topologies, (name) => address(name, undefined, {}));
  }
  const chosen = found.name === asked.name ? asked.chosen : undefined;
  keys.mark(chosen);
  keys.of(topology, asked.name === found.name ? asked.ofKeys : {});
  byId("all-keys").href = address(topology.name, undefined, keys.chosenOf);
  document.title = chosen === undefined ? `${topology.name} · slidestat` : `${chosen} · ${topology.name} · slidestat`;
  if (chosen === undefined) {
    key.close();
  } else {
    const isClick = document.activeElement?.closest("#keys");
    key.open(topology, chosen, asked.window, asked.series, asked.ago);
    if (isClick) byId("key-title").focus();
  }
  await round();
}

/** Ask for all that is shown. */
async function round() {
  try {
    if (!topologies.length) {
      topologies = await api.topologies();
      byId("topology").replaceChildren(...topologies.map(({ name }) => h("option", { value: name }, name)));
      connected();
      await follow();
      return;
    }
    const found = await api.status(topology.name);
    if (found.topology !== topology.name) return;
    status.show(found);
    keys.fire(firingOf(found));
    connected(found);
    rounds += 1;
    if (rounds % KEYS_EVERY === 0) keys.refresh();
    await key.refresh();
  } catch (error) {
    failed(error);
  }
}

function connected(found) {
  answeredAt = Date.now();
  const restoring = found?.workers.filter(({ state }) => state !== "ready").length ?? 0;
  connection(restoring ? "restoring" : "ready", restoring ? `${restoring} of the workers not ready` : "live");
}

function connection(state, text) {
  byId("connection").dataset.state = state;
  say(byId("connection"), text);
}

function failed(error) {
  if (!(error instanceof api.ApiError)) throw error;
  if (error.status === 401) {
    const dialog = byId("token-dialog");
    if (!dialog.open) dialog.showModal();
    connection("error", "needs the token");
  } else if (error.status === 503) {
    connection("restoring", "restoring");
  } else if (error.status === 429) {
    connection("restoring", "busy");
  } else {
    const since = answeredAt === undefined ? "" : ` What is shown is of ${timeIn(answeredAt)}.`;
    connection("error", `${error.message}${since}`);
  }
}

byId("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  api.keepToken(byId("token").value.trim());
  try {
    await api.topologies();
  } catch (error) {
    const text = error.status === 401 ? "This is not its token." : error.message;
    say(byId("token-error"), text);
    byId("token-error").hidden = false;
    byId("token").select();
    return;
  }
  byId("token-error").hidden = true;
  byId("token-dialog").close();
  await round();
});

byId("topology").addEventListener("change", (event) => goTo(event.target.value));
byId("pause").addEventListener("click", (event) => {
  const paused = event.target.getAttribute("aria-pressed") !== "true";
  event.target.setAttribute("aria-pressed", String(paused));
  say(event.target, paused ? "Go on" : "Pause");
  if (!paused) round();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("prefix").focus();
});
addEventListener("hashchange", follow);

byId("zone").replaceChildren(...ZONES.map((name) => h("option", { value: name }, name.replaceAll("_", " "))));
byId("zone").value = zone;
byId("zone").parentElement.hidden = ZONES.length === 1;
for (const place of document.querySelectorAll("[data-zone]")) say(place, zone);
byId("zone").addEventListener("change", (event) => {
  keepZone(event.target.value);
  location.reload();
});

async function forever() {
  for (;;) {
    const isPaused = byId("pause").getAttribute("aria-pressed") === "true";
    if (!isPaused && !document.hidden && !byId("token-dialog").open) await round();
    await new Promise((resume) => setTimeout(resume, EVERY_MS));
  }
}
forever();
