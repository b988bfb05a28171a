// The page's charts, from the data beside them. Keys and items are written as text alone.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });
// Below it, an error is what rounding leaves of an exact figure.
const NOTHING = 1e-9;
const percent = (share) =>
  share === 0 ? "0" : share < NOTHING ? "≈ 0" : `${new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 }).format(100 * share)}\u00a0%`;
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });
const at = (seconds) => day.format(new Date(1000 * seconds));
const number = (value) => (value === null || value === undefined ? "–" : short.format(value));

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function bytes(count) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const step = count < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(count) / 3));
  return `${new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 }).format(count / 1000 ** step)} ${units[step]}`;
}

// In numbers

const { records, statistics } = data.audit;
const figures = statistics.reduce((sum, statistic) => sum + statistic.figures, 0);
// A statistic that chance enters may miss as often as its confidence allows.
const isKept = (statistic) => statistic.faults <= (1 - statistic.confidence) * statistic.figures;
const misses = (among) => among.reduce((sum, statistic) => sum + statistic.faults, 0);
const allowed = misses(statistics.filter(isKept));
const broken = misses(statistics) - allowed + data.audit.other_faults;

document.title = `Audit of ${data.topology}`;
byId("title").textContent = `Audit of ${data.topology}`;
byId("period").textContent = `Windows that ended from ${at(data.first)} to ${at(data.last)} UTC`;
byId("verdict").textContent = data.is_clean
  ? "Every promise kept"
  : `${whole.format(broken + records.unaccounted)} ${broken + records.unaccounted === 1 ? "promise" : "promises"} broken`;
byId("verdict").classList.toggle("clean", data.is_clean);
byId("made").textContent = `Made by slidestat on ${data.made.replace("T", " ").replace("+00:00", " UTC")}. Every exact figure is recomputed from the raw records.`;

const refused = [
  [records.late, "late"],
  [records.dead, "dead letters"],
  [records.unaccounted, "unaccounted for"],
].filter(([count]) => count > 0);
const { sample, judged } = data.audit;
const emissions = sample < 1 ? judged.reduce((sum, one) => sum + one.emissions, 0) : data.audit.emissions;
const chosen = sample < 1 ? `, a sample of ${(100 * sample).toPrecision(3)} %` : "";
for (const [value, told] of [
  [whole.format(figures), `figures compared, of ${whole.format(data.all_keys)} keys${chosen}`],
  [whole.format(broken), "of them broke their promise" + (allowed ? `; ${whole.format(allowed)} missed by chance, as may be` : "")],
  [
    whole.format(records.counted),
    `of ${whole.format(records.read)} records counted` +
      (refused.length ? `; ${refused.map(([count, what]) => `${whole.format(count)} ${what}`).join(", ")}` : ", none refused"),
  ],
  [whole.format(emissions), "emissions written"],
]) {
  const tile = element("div", "tile");
  tile.append(element("strong", "", value), element("span", "muted", told));
  byId("tiles").append(tile);
}

byId("broken").hidden = data.audit.broken.length === 0;
for (const line of data.audit.broken) byId("broken").querySelector("ul").append(element("li", "", line));

// Over time

const sync = uPlot.sync("time");
let charts = [];

function options(select, values, chosen) {
  select.replaceChildren(...values.map((value) => new Option(value, value, false, value === chosen)));
}

function chosenKey() {
  return data.keys.find((key) => key.key === byId("key").value);
}

function showFigures() {
  const names = [...new Set(chosenKey().series.map((series) => series.name))];
  const before = byId("figure").value;
  options(byId("figure"), names, names.includes(before) ? before : names[0]);
  showWindows();
}

function showWindows() {
  const windows = chosenKey()
    .series.filter((series) => series.name === byId("figure").value)
    .map((series) => series.window);
  const before = byId("window").value;
  options(byId("window"), windows, windows.includes(before) ? before : windows[0]);
  // A derived figure has the windows of its parts.
  byId("window").parentElement.hidden = !windows.some(Boolean);
  showSeries();
}

function showSeries() {
  const series = chosenKey().series.find(
    (one) => one.name === byId("figure").value && one.window === byId("window").value,
  );
  for (const chart of charts) chart.destroy();
  charts = [];
  if (!series) return;
  const sure = series.confidence < 1 ? `, in ${percent(series.confidence)} of cases` : "";
  const error = series.window ? `error ${percent(series.promised)} ${series.unit}` : "within its bounds";
  const promise = series.promised ? `promised ${error}${sure}` : "promised exact";
  const what = [`${series.name} of ${chosenKey().key}`, series.window, promise].filter(Boolean).join(", ");
  byId("zoom-title").textContent = `How far from exact: ${what}`;
  const columns = [series.lowers, series.uppers, series.estimates, series.exacts];
  charts.push(plot(byId("line"), [series.times, ...columns], 300, false));
  const scale = series.exacts.every((exact) => exact === null || exact > 0);
  const away = columns.map((column) =>
    column.map((value, row) => {
      const exact = series.exacts[row];
      if (value === null || exact === null) return null;
      return scale ? (100 * (value - exact)) / exact : value - exact;
    }),
  );
  charts.push(plot(byId("zoom"), [series.times, ...away], 210, scale));
}

function timeTicks(ticks) {
  const moments = ticks.map((tick) => new Date(1000 * tick));
  const date = (moment) => moment.toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  if (ticks.length > 1 && ticks[1] - ticks[0] >= 86400) return moments.map(date);
  return moments.map((moment, place) => {
    const time = moment.toISOString().slice(11, ticks.length > 1 && ticks[1] - ticks[0] < 60 ? 19 : 16);
    return place === 0 || time.startsWith("00:00") ? `${time}\n${date(moment)}` : time;
  });
}

function plot(place, columns, height, isShare) {
  const told = (_, value) => (isShare && value !== null ? `${number(value)} %` : number(value));
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "12px system-ui" };
  const edge = { stroke: "transparent", width: 0, points: { show: false }, value: told };
  return new uPlot(
    {
      width: place.clientWidth,
      height,
      cursor: { sync: { key: sync.key } },
      tzDate: (seconds) => uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC"),
      // A label such as 12:00:00 or 30 Sept takes up to 60 pixels.
      axes: [{ ...axis, space: 84, values: (_, ticks) => timeTicks(ticks) }, { ...axis, size: 74, values: (_, ticks) => ticks.map((tick) => number(tick) + (isShare ? " %" : "")) }],
      series: [
        { label: "window's end", value: (_, seconds) => (seconds === null ? "–" : `${at(seconds)} UTC`) },
        { ...edge, label: "lower" },
        { ...edge, label: "upper" },
        { label: "estimate", stroke: colour("accent"), width: 1.5, points: { show: false }, value: told },
        { label: "exact", stroke: colour("exact"), width: 1.5, dash: [5, 3], points: { show: false }, value: told },
      ],
      bands: [{ series: [2, 1], fill: colour("band") }],
      legend: { markers: { fill: (_, number) => colour(number < 3 ? "band" : "panel") } },
    },
    columns,
    place,
  );
}

// Errors

function histogram(told, statistic) {
  const card = element("div", "card");
  const title = element("h3", "", told.statistic);
  title.append(element("span", "", `${whole.format(statistic.figures)} figures`));
  const [width, height, foot, right] = [400, 120, 18, 300];
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height + foot + 12}`, role: "img" });
  svg.append(drawn("title", {}, `Errors of ${told.statistic}, as shares of what is promised`));
  const bars = told.bars;
  const most = Math.max(1, ...bars, told.beyond);
  // Without a root, the many small errors would leave nothing to see of the large ones.
  const high = (count) => (count ? Math.max(1.5, (height - 14) * Math.sqrt(count / most)) : 0);
  const step = right / bars.length;
  bars.forEach((count, bar) => {
    const rect = drawn("rect", { x: bar * step + 0.5, y: 12 + height - high(count), width: step - 1, height: high(count), fill: colour("bar") });
    rect.append(drawn("title", {}, `${whole.format(count)} figures used ${(100 * bar) / bars.length} to ${(100 * (bar + 1)) / bars.length} % of their promise`));
    svg.append(rect);
  });
  svg.append(drawn("rect", { x: right + 6, y: 12 + height - high(told.beyond), width: width - right - 6, height: high(told.beyond), fill: colour(isKept(statistic) ? "bar" : "bad") }));
  svg.append(drawn("line", { x1: 0, x2: width, y1: 12 + height, y2: 12 + height, stroke: colour("line") }));
  svg.append(drawn("line", { x1: right + 1, x2: right + 1, y1: 2, y2: 12 + height, stroke: colour("ink"), "stroke-dasharray": "4 3" }));
  const label = (x, anchor, text) => svg.append(drawn("text", { x, y: height + 12 + 14, "text-anchor": anchor }, text));
  label(0, "start", "0");
  label(right / 2, "middle", "share of the promise used");
  label(right, "end", "all");
  label(width, "end", told.beyond ? `${whole.format(told.beyond)} ${isKept(statistic) ? "missed" : "broken"}` : "none broken");
  const allExact = told.exact === statistic.figures;
  const exact = allExact ? { x: right / 2, y: height / 2 + 12, "text-anchor": "middle" } : { x: right - 5, y: 11, "text-anchor": "end" };
  svg.append(drawn("text", exact, allExact ? "all exact" : `${whole.format(told.exact)} exact, not drawn`));
  const facts = element("dl", "facts");
  for (const [name, value] of [["promised", statistic.promised], ["median", statistic.median], ["99 % within", statistic.p99], ["largest", statistic.worst]]) {
    facts.append(element("dt", "", name), element("dd", "", percent(value)));
  }
  const sure = statistic.confidence < 1 ? `; may miss in ${percent(1 - statistic.confidence)} of cases` : "";
  card.append(title, svg, facts, element("p", "muted", `${statistic.unit}${sure}`));
  return card;
}

function showHistograms() {
  byId("histograms").replaceChildren(
    ...data.histograms.map((told) => histogram(told, statistics.find((one) => one.statistic === told.statistic))),
  );
}

// Top items and traffic

function track(share, small) {
  const made = element("div", "track");
  const exact = element("div", small ? "exact small" : "exact");
  exact.style.width = `${100 * share}%`;
  made.append(exact);
  return made;
}

function showTops() {
  const key = chosenKey();
  byId("top-panel").hidden = key.tops.length === 0;
  byId("top-title").textContent = `Top items of ${key.key}`;
  byId("tops").replaceChildren(
    ...key.tops.map((list) => {
      const card = element("div", "card");
      const title = element("h3", "", `${list.name}, ${list.window}`);
      title.append(element("span", "", `until ${at(list.until)} UTC`));
      const bars = element("div", "bars");
      const most = Math.max(1, ...list.items.map((item) => Math.max(item.upper, item.exact)));
      for (const item of list.items) {
        const row = track(item.exact / most, false);
        const bounds = element("div", "bounds");
        bounds.style.left = `${(100 * item.lower) / most}%`;
        bounds.style.width = `${(100 * (item.upper - item.lower)) / most}%`;
        const estimate = element("div", "estimate");
        estimate.style.left = `${(100 * item.estimate) / most}%`;
        row.append(bounds, estimate);
        row.title = `estimate ${number(item.estimate)} in [${number(item.lower)}, ${number(item.upper)}], exact ${number(item.exact)}`;
        bars.append(element("span", "", item.item), row, element("span", "count", whole.format(item.exact)));
      }
      card.append(title, bars);
      return card;
    }),
  );
}

function showTraffic() {
  const inside = [records.read, records.bytes];
  const out = [emissions, data.audit.emission_bytes];
  const bars = element("div", "bars");
  [whole.format, bytes].forEach((told, unit) => {
    const most = Math.max(1, inside[unit], out[unit]);
    const what = unit ? ["bytes in", "bytes out"] : ["records in", "records out"];
    bars.append(element("span", "", what[0]), track(inside[unit] / most, false), element("span", "count", told(inside[unit])));
    bars.append(element("span", "", what[1]), track(out[unit] / most, true), element("span", "count", told(out[unit])));
  });
  const ratio = (unit) => {
    const times = out[unit] ? inside[unit] / out[unit] : 0;
    return times >= 1 ? `${short.format(Math.round(10 * times) / 10)} times fewer` : `${short.format(Math.round(10 / times) / 10)} times more`;
  };
  byId("traffic").append(bars, element("p", "muted", `${ratio(0)} records and ${ratio(1)} bytes than the topic of the events has, for ${whole.format(figures)} figures.`));
}

byId("key").addEventListener("change", () => {
  showFigures();
  showTops();
});
byId("figure").addEventListener("change", showWindows);
byId("window").addEventListener("change", showSeries);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  showSeries();
  showHistograms();
});
addEventListener("resize", () => {
  for (const chart of charts) chart.setSize({ width: chart.root.parentElement.clientWidth, height: chart.height });
});

showTraffic();
showHistograms();
if (data.keys.length) {
  options(byId("key"), data.keys.map((key) => key.key), data.keys[0].key);
  showFigures();
  showTops();
}
