// What a unit does in a cycle, by the bits of its events: of several the first one in the catalog's order counts.

export const IDLE = "idle";
export const number = value => value.toLocaleString("en");
export const KINDS = {works: "works", stall: "waits for memory, data or room", wait: "waits for another unit",
  busy: "has work under way"};

// The kind of an event by its name in the register map.
export function kindOf(event) {
  if (/_wait$/.test(event)) return "wait";
  if (/_stall_(vector|array)$/.test(event)) return "wait";
  if (/_stall_/.test(event)) return "stall";
  return /_busy$/.test(event) ? "busy" : "works";
}

// For each unit its events as masks with their kinds and words.
export function unitsOf(catalog) {
  return Object.fromEntries(Object.entries(catalog.units).map(([name, events]) => [name,
    events.map(([event, word]) => ({mask: 1 << catalog.events.indexOf(event), kind: kindOf(event), word}))]));
}

export function stateOf(word, unit) { return unit.find(each => word & each.mask); }

// Runs of cycles in which a unit's state stays: {kind, word, start, end}, without idle ones.
export function pieces(events, unit) {
  const made = [];
  let was, from = 0;
  for (let cycle = 0; cycle <= events.length; ++cycle) {
    const now = cycle < events.length ? stateOf(events[cycle], unit) : undefined;
    if (now === was) continue;
    if (was) made.push({kind: was.kind, word: was.word, start: from, end: cycle});
    [was, from] = [now, cycle];
  }
  return made;
}
