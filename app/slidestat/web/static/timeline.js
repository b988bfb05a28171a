// A key over time: what was written out, what the page was told since, and where neither is known.

/** Emissions need so long at most from the watermark to the topic, also in transactions. */
const SETTLED_MS = 10_000;

/** Answers two rounds of questions apart are neighbours, whatever the topology's ticks. */
const ASKED_EVERY_S = 6;

/**
 * The stretches without points: {from, to, kind}. "silent": the topic has nothing of the key there:
 * it had no new events, or the topology's `emit` or `having` left it out. "unread": what was there is not known here.
 *
 * Points are [x, lower, upper, estimate, asked], in order of x; `asked`, when the page was told, is
 * undefined for those that were written out. `known`: {after, until}, between which the topic has
 * been read; null where nothing of the window is written out.
 */
export function holesOf(points, { everyX, isSequence }, known) {
  const holes = [];
  for (let i = 1; i < points.length; i += 1) {
    const [[from, , , , before], [to, , , , asked]] = [points[i - 1], points[i]];
    const isLive = before !== undefined || asked !== undefined;
    const most = isLive && !isSequence ? Math.max(everyX, ASKED_EVERY_S) : everyX;
    if (to - from <= most * 1.000001) continue;
    const isRead = known !== null && known.after <= from && to <= known.until;
    holes.push({ from, to, kind: isRead ? "silent" : "unread" });
  }
  return holes;
}

/** Up to where a topic is known that was read at the time `readAt`: what is newer may have been on its way. */
export function knownUntil(written, seen, readAt) {
  const settled = seen.filter(([, , , , asked]) => asked <= readAt - SETTLED_MS);
  return Math.max(written.at(-1)?.[0] ?? -Infinity, settled.at(-1)?.[0] ?? -Infinity);
}
