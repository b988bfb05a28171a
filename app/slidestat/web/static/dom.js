// Elements, made and changed without ever reading text as markup: keys and items are anybody's.

const SVG = "http://www.w3.org/2000/svg";

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** An element with attributes (functions listen to events) and children, strings as text. */
export function h(tag, attributes = {}, ...children) {
  return dressed(document.createElement(tag), attributes, children);
}

/** The same for pictures. */
export function svg(tag, attributes = {}, ...children) {
  return dressed(document.createElementNS(SVG, tag), attributes, children);
}

function dressed(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Set an element's text, if it is another: what is selected or read aloud stays undisturbed. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Fill a table's body: rows of cells that are texts; the first cell of a row is its header. */
export function fillRows(body, rows) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => {
    const row = body.rows[i] ?? body.insertRow();
    while (row.cells.length > cells.length) row.deleteCell(-1);
    cells.forEach((text, j) => {
      const cell = row.cells[j] ?? row.appendChild(j ? h("td") : h("th", { scope: "row" }));
      say(cell, text);
    });
  });
}
