// The strip: what each unit did in each cycle, in a canvas that zooms, and the same as a table by layer.

import {IDLE, KINDS, number, stateOf} from "./units.js";

const LABEL = 64, LEAST_CYCLES = 32;
export class Strip {
  constructor({canvas, where, table, units}) {
    Object.assign(this, {canvas, where, table, units, result: undefined, view: [0, 1]});
    canvas.onclick = event => this.zoom(this.cycleAt(event), .25);
    canvas.addEventListener("wheel", event => {
      if (!event.ctrlKey || !this.result) return;
      event.preventDefault();
      this.zoom(this.cycleAt(event), event.deltaY > 0 ? 1.25 : .8);
    }, {passive: false});
    canvas.onkeydown = event => this.move(event);
    canvas.onpointermove = event => this.tell(event);
    addEventListener("resize", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(result) {
    this.result = result;
    this.fill();
    this.whole();
  }

  whole() {
    if (!this.result) return;
    this.view = [0, this.result.cycles];
    this.draw();
  }

  move(event) {
    const [from, to] = this.view, span = to - from;
    const step = {"+": [0, .5], "-": [0, 2], ArrowLeft: [-span / 4, 1], ArrowRight: [span / 4, 1]}[event.key];
    if (!step || !this.result) return;
    event.preventDefault();
    this.zoom((from + to) / 2 + step[0], step[1]);
  }

  zoom(middle, factor) {
    if (!this.result) return;
    const {cycles} = this.result;
    const span = Math.min(cycles, Math.max(LEAST_CYCLES, (this.view[1] - this.view[0]) * factor));
    const from = Math.min(Math.max(0, middle - span / 2), cycles - span);
    this.view = [from, from + span];
    this.draw();
  }

  cycleAt(event) {
    const share = Math.max(0, event.offsetX - LABEL) / (this.canvas.clientWidth - LABEL);
    return this.view[0] + share * (this.view[1] - this.view[0]);
  }

  tell(event) {
    if (!this.result?.events.length) return;
    const cycle = Math.min(Math.floor(this.cycleAt(event)), this.result.events.length - 1);
    const layer = this.result.layers.find(each => cycle < each.end)?.name ?? "";
    const states = Object.entries(this.units).map(
      ([name, unit]) => `${name} ${stateOf(this.result.events[cycle], unit)?.word ?? IDLE}`);
    this.where.textContent = `cycle ${number(cycle)}, ${layer}: ${states.join(", ")}`.replaceAll("_", " ");
  }

  draw() {
    if (!this.result) return;
    const {canvas, view: [from, to]} = this, ratio = devicePixelRatio;
    const width = canvas.width = canvas.clientWidth * ratio, height = canvas.height = canvas.clientHeight * ratio;
    const pen = canvas.getContext("2d"), left = LABEL * ratio, span = width - left, row = height / 5.6;
    const colors = Object.fromEntries(["ink", "line", ...Object.keys(KINDS)].map(name => [name, this.color(name)]));
    const color = name => colors[name];
    const at = cycle => left + (cycle - from) / (to - from) * span;
    pen.clearRect(0, 0, width, height);
    pen.font = `${12 * ratio}px system-ui`;
    pen.textBaseline = "middle";
    Object.entries(this.units).forEach(([name, unit], line) => {
      const top = (line + 1.1) * row;
      pen.fillStyle = color("ink");
      pen.fillText(name, 0, top + row * .4);
      for (let column = 0; column < span; ++column) {
        const first = Math.floor(from + column * (to - from) / span);
        const end = Math.max(first + 1, Math.floor(from + (column + 1) * (to - from) / span));
        let bottom = top + row * .8;
        for (const [kind, count] of this.counted(first, end, unit)) {
          const part = count / (end - first) * row * .8;
          pen.fillStyle = color(kind);
          pen.fillRect(left + column, bottom -= part, 1, part);
        }
      }
    });
    for (const layer of this.result.layers) {
      if (layer.end <= from || layer.start >= to) continue;
      const x = Math.max(at(layer.start), left), end = Math.min(at(layer.end), width);
      pen.fillStyle = color("line");
      pen.fillRect(x, 0, ratio, height - row * .6);
      pen.fillStyle = color("ink");
      if (end - x > pen.measureText(layer.name).width + 8 * ratio) pen.fillText(layer.name, x + 4 * ratio, row * .5);
    }
    pen.fillStyle = color("ink");
    pen.textAlign = "left";
    pen.fillText(number(Math.round(from)), left, height - row * .3);
    pen.textAlign = "right";
    pen.fillText(`${number(Math.round(to))} cycles`, width, height - row * .3);
    pen.textAlign = "left";
  }

  // A color of the page's style, as a canvas takes it.
  color(name) {
    this.where.style.color = `var(--${name})`;
    const found = getComputedStyle(this.where).color;
    this.where.style.color = "";
    return found;
  }

  // How many of these cycles a unit is in a state of each kind.
  counted(first, end, unit) {
    const counts = new Map(Object.keys(KINDS).map(kind => [kind, 0]));
    // Of very many cycles a part: a column has few pixels.
    const step = Math.max(1, Math.floor((end - first) / 64));
    for (let cycle = first; cycle < Math.min(end, this.result.events.length); cycle += step) {
      const kind = stateOf(this.result.events[cycle], unit)?.kind;
      if (kind) counts.set(kind, counts.get(kind) + step);
    }
    return counts;
  }

  fill() {
    const cell = (row, text, tag = "td") => {
      const made = document.createElement(tag);
      made.textContent = text;
      row.append(made);
      return made;
    };
    const head = document.createElement("tr");
    for (const title of ["layer", "operator", "cycles"]) cell(head, title, "th");
    for (const name of Object.keys(this.units)) cell(head, `${name} works`, "th");
    this.table.tHead.replaceChildren(head);
    this.table.tBodies[0].replaceChildren(...this.result.layers.map(layer => {
      const row = document.createElement("tr");
      cell(row, layer.name, "th").scope = "row";
      cell(row, layer.op);
      cell(row, number(layer.end - layer.start));
      for (const unit of Object.values(this.units)) {
        let works = 0;
        for (let cycle = layer.start; cycle < Math.min(layer.end, this.result.events.length); ++cycle)
          works += stateOf(this.result.events[cycle], unit)?.kind === "works";
        cell(row, number(works));
      }
      return row;
    }));
  }
}
