// Questions to the worker that served this page; it asks the others of its group by itself.

const TOKEN = "slidestat-token";

/** No answer, with what to do; status 0 if the worker did not answer at all. */
export class ApiError extends Error {
  constructor(status, error, advice = "") {
    super(error);
    this.status = status;
    this.advice = advice;
  }
}

/** Keep the token for as long as the tab is open. */
export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);

/** Ask at a path from where the page is: a proxy may have put it below a path of its own. */
async function get(path) {
  const token = sessionStorage.getItem(TOKEN);
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), {
      headers: token ? { Authorization: `Bearer ${token}` } : {},
      signal: AbortSignal.timeout(10_000),
      // A worker never redirects: a proxy does, to where one signs in.
      redirect: "manual",
    });
  } catch {
    throw new ApiError(0, "The worker does not answer.", "Is it running? The page asks again.");
  }
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
  if (response.type === "opaqueredirect" || (!isJson && (response.ok || [401, 403].includes(response.status)))) {
    throw new ApiError(0, "A proxy answers in place of the worker. Load the page again to sign in.");
  }
  let body;
  try {
    body = await response.json();
  } catch {
    throw new ApiError(response.status, "The answer cannot be read.");
  }
  if (!response.ok) throw new ApiError(response.status, body.error, body.advice);
  return body;
}

const of = (topology) => `topologies/${encodeURIComponent(topology)}`;

function query(parameters) {
  const pairs = new URLSearchParams();
  for (const [name, values] of Object.entries(parameters)) {
    for (const value of [values].flat()) pairs.append(name, value);
  }
  return pairs.size ? `?${pairs}` : "";
}

export const topologies = async () => (await get("topologies")).topologies;
export const status = (topology) => get(`${of(topology)}/status`);
export const keys = (topology, parameters) => get(`${of(topology)}/keys${query(parameters)}`);
export const table = (topology, parameters) => get(`${of(topology)}/table${query(parameters)}`);
export const ranking = (topology, parameters) => get(`${of(topology)}/ranking${query(parameters)}`);

// A path cannot have these, however they are encoded: to a browser they are folders.
const isFolder = (key) => key === "." || key === "..";

export const history = (topology, key) =>
  get(isFolder(key)
    ? `${of(topology)}/key/history${query({ key })}`
    : `${of(topology)}/keys/${encodeURIComponent(key)}/history`);
export const figures = (topology, key, parameters) =>
  get(isFolder(key)
    ? `${of(topology)}/key${query({ key, ...parameters })}`
    : `${of(topology)}/keys/${encodeURIComponent(key)}${query(parameters)}`);
