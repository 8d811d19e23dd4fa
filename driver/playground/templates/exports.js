// What happened in a run, for waveform viewers (VCD) and for ui.perfetto.dev. One unit of time is a cycle.

import {IDLE, pieces, stateOf} from "./units.js";

const plain = name => name.replace(/[^!-~]/g, "_");

export function vcd({events, layers}, names, units) {
  const code = i => String.fromCharCode(33 + i);
  const lines = ["$version tosaic $end", "$timescale 1 ns $end", "$scope module tosaic $end"];
  names.forEach((name, i) => lines.push(`$var wire 1 ${code(i)} ${name} $end`));
  lines.push("$var string 1 } layer $end");
  Object.keys(units).forEach((name, i) => lines.push(`$var string 1 ~${i} ${name} $end`));
  lines.push("$upscope $end", "$enddefinitions $end");
  const starts = new Map(layers.map(layer => [layer.start, layer.name]));
  const was = [];
  for (let cycle = 0; cycle < events.length; ++cycle) {
    const changed = cycle ? events[cycle] ^ events[cycle - 1] : -1;
    const out = starts.has(cycle) ? [`s${plain(starts.get(cycle))} }`] : [];
    if (changed) {
      names.forEach((_, i) => { if (changed >> i & 1) out.push(`${events[cycle] >> i & 1}${code(i)}`); });
      Object.values(units).forEach((unit, i) => {
        const now = stateOf(events[cycle], unit)?.word ?? IDLE;
        if (now !== was[i]) out.push(`s${was[i] = now} ~${i}`);
      });
    }
    if (out.length) lines.push(`#${cycle}`, ...out);
  }
  lines.push(`#${events.length}`);
  return lines.join("\n") + "\n";
}

export function perfetto({events, layers}, units) {
  const slice = (tid, name, start, end) => ({ph: "X", pid: 0, tid, name, ts: start, dur: end - start});
  const title = (tid, name) => ({ph: "M", pid: 0, tid, name: "thread_name", args: {name}});
  const made = [title(0, "layers"), ...layers.map(each => slice(0, `${each.name} (${each.op})`, each.start, each.end))];
  Object.entries(units).forEach(([name, unit], i) => {
    made.push(title(i + 1, name), ...pieces(events, unit).map(each => slice(i + 1, each.word, each.start, each.end)));
  });
  return JSON.stringify({traceEvents: made});
}
