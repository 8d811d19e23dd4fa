// The page: chooses a network and a machine, gives the worker orders and shows what comes back.

import {Pad, entering} from "./digits.js";
import {perfetto, vcd} from "./exports.js";
import {loadCatalog, startWorker} from "./start.js";
import {Strip} from "./strip.js";
import {KINDS, number, unitsOf} from "./units.js";

const catalog = await loadCatalog();
const $ = id => document.getElementById(id);
const units = unitsOf(catalog);
const strip = new Strip({canvas: $("strip"), where: $("where"), table: $("units"), units});
const worker = startWorker();
const waiting = new Map();
let orders = 0, demo, opened, result, ready, again = () => {}, writing = false;

worker.onmessage = ({data}) => {
  if (data.progress !== undefined) return void say(`Running: ${number(data.progress)} cycles …`);
  const {done, fail} = waiting.get(data.id);
  waiting.delete(data.id);
  data.error ? fail(new Error(data.error)) : done(data.result);
};
const ask = (order, rest) => new Promise((done, fail) => {
  waiting.set(++orders, {done, fail});
  worker.postMessage({order, id: orders, ...rest});
});
const say = text => { $("status").textContent = text; };
const failed = error => say(`Failed: ${error.message}`);

// --- Results.

function show(found) {
  result = window.tosaicResult = found;  // for whoever examines the page
  const {cycles, milliseconds} = found;
  showOutputs();
  strip.show(found);
  say(`${demo.labels || demo.kind === "digits" ? `${best()}. ` : ""}${number(cycles)} clock cycles in ` +
    `${milliseconds.toFixed(0)} ms: ${number(Math.round(cycles / milliseconds))} thousand per second here; ` +
    `${(cycles / 50e6 * 1e3).toFixed(2)} ms on a chip with 50 MHz.`);
}

const labelOf = index => demo.labels?.[index] ?? String(index);

function best() {
  const values = Object.values(result.outputs)[0];
  return `It is a ${labelOf(values.indexOf(Math.max(...values)))}`;
}

function showOutputs() {
  $("outputs").replaceChildren(...Object.entries(result.outputs).map(([name, values]) => {
    const list = document.createElement("ol");
    list.setAttribute("aria-label", name);
    const order = Array.from(values, (_, i) => i);
    if (values.length > 12) order.sort((a, b) => values[b] - values[a]).length = 12;
    const least = Math.min(...values), most = Math.max(...values);
    for (const index of order) {
      const item = document.createElement("li");
      item.className = values[index] === most ? "best" : "";
      const title = document.createElement("span"), bar = document.createElement("div");
      const filled = document.createElement("i"), value = document.createElement("span");
      title.textContent = labelOf(index);
      filled.style.width = `${100 * (values[index] - least) / Math.max(most - least, 1)}%`;
      value.textContent = values[index];
      bar.append(filled);
      item.append(title, bar, value);
      list.append(item);
    }
    const caption = document.createElement("p");
    caption.textContent = `${name}: ${number(values.length)} numbers` +
      (values.length > order.length ? `, the ${order.length} largest:` : ":");
    const shown = document.createElement("div");
    shown.append(caption, list);
    return shown;
  }));
}

async function run(inputs) {
  await ready;
  show(await ask("run", {inputs, watched: true}));
}
const guarded = act => (...rest) => {
  again = () => act(...rest).catch(failed);
  return again();
};

// --- Digits.

const classify = guarded(async counts => {
  await ready;
  await run({[opened.inputs[0].name]: entering(counts)});
});
const pad = new Pad($("pad"), classify);
$("clear").onclick = () => pad.clear();
const example = counts => {
  pad.show(counts);
  return classify(counts);
};

// --- Text, a character at a time, with the network's state.

const write = guarded(async () => {
  await ready;
  const {alphabet, characters} = demo, code = text => [...text].map(each => alphabet.indexOf(each)).filter(i => i >= 0);
  const pending = code($("prompt").value);
  if (!pending.length) throw new Error("begin with at least one letter");
  await ask("restart");
  $("text").textContent = $("prompt").value;
  writing = true;
  const began = performance.now();
  for (let count = 0; writing && count < characters;) {
    const found = await ask("run", {inputs: {[opened.inputs[0].name]: Int32Array.of(pending.shift())}, watched: true});
    if (pending.length) continue;
    const values = Object.values(found.outputs)[0], next = drawn(values, demo.scale, 0.4);
    pending.push(next);
    $("text").textContent += alphabet[next];
    show(found);
    say(`${(++count / (performance.now() - began) * 1e3).toFixed(1)} characters per second; ` +
      `${number(found.cycles)} cycles each.`);
  }
  writing = false;
});
$("write").onclick = write;
$("stop").onclick = () => { writing = false; };

// The largest of the logits with Gumbel noise is a draw from their softmax.
function drawn(values, scale, temperature) {
  let most = -Infinity, found = 0;
  values.forEach((value, index) => {
    const score = value * scale - temperature * Math.log(-Math.log(Math.random() || 1e-12));
    if (score > most) [most, found] = [score, index];
  });
  return found;
}

// --- Any network.

const LIMITS = {BOOL: [0, 1], INT8: [-128, 127], UINT8: [0, 255], INT16: [-32768, 32767], UINT16: [0, 65535],
  INT32: [-128, 127]};
function random(seed) {
  let state = seed + 1 | 0;
  const next = () => {
    state = Math.imul(state ^ state >>> 15, 0x2c1b3c6d) + 0x9e3779b9 | 0;
    return ((state ^ state >>> 13) >>> 0) / 2 ** 32;
  };
  return Object.fromEntries(opened.inputs.map(port => {
    const [low, high] = LIMITS[port.dtype], count = port.shape.reduce((a, b) => a * b, 1);
    return [port.name, Array.from({length: count}, () => low + Math.floor(next() * (high - low + 1)))];
  }));
}
const feed = guarded(async inputs => {
  const given = inputs ?? (await ready, random(Number($("seed").value)));
  picture(given);
  await run(given);
});
$("random").onclick = () => feed();

// Shows an input of one image.
function picture(inputs) {
  const port = opened.inputs.find(each => each.shape.length === 4 && [1, 3].includes(each.shape[3]));
  $("picture").hidden = !port;
  if (!port) return;
  const [, height, width, channels] = port.shape, values = inputs[port.name], [low, high] = LIMITS[port.dtype];
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; ++i)
    for (let c = 0; c < 4; ++c)
      image.data[4 * i + c] = c === 3 ? 255 : (values[i * channels + Math.min(c, channels - 1)] - low) * 255 / (high - low);
  Object.assign($("picture"), {width, height});
  $("picture").style.width = `${Math.max(width, Math.min(4 * width, 256))}px`;
  $("picture").getContext("2d").putImageData(image, 0, 0);
}

// --- Networks and machines.

function chooseDemo() {
  demo = catalog.demos.find(each => each.name === $("demo").value);
  $("machine").replaceChildren(...catalog.machines.filter(each => demo.programs[each.name])
    .map(each => new Option(each.title, each.name)));
  again = () => {};
  openMachine();
}

function layOut() {
  for (const kind of ["digits", "chat", "tensor"]) $(kind).hidden = demo.kind !== kind;
  $("picture").hidden = true;
  if (demo.kind === "chat") $("prompt").value = demo.prompt;
  const button = (text, title, act) => {
    const made = document.createElement("button");
    Object.assign(made, {textContent: text, title, onclick: act});
    return made;
  };
  $("examples").replaceChildren(...(demo.kind === "digits" ? demo.examples : []).map(each =>
    button(each.label, "an image of the test set", () => example(Uint8Array.from(each.pixels)))));
  $("samples").replaceChildren(...(demo.kind === "tensor" ? demo.samples : []).map((inputs, i) =>
    button(`Sample ${i + 1}`, "an input that was given with the network", () => feed(inputs))));
}

function openMachine(own) {
  writing = false;
  layOut();
  const machine = catalog.machines.find(each => each.name === $("machine").value);
  say("Loading the accelerator …");
  const {wasm, bus_bytes: busBytes} = machine;
  ready = ask("open", {catalog, wasm, busBytes, program: own ?? demo.programs[machine.name]}).then(found => {
    opened = found;
    const {config, milliseconds} = found;
    say(`Ready: ${machine.name}, ${config.rows} by ${config.columns} multipliers, in ${milliseconds.toFixed(0)} ms.`);
  });
  ready.catch(failed);
  return ready;
}

$("demo").onchange = chooseDemo;
$("machine").onchange = () => {
  openMachine(demo.own);
  again();
};
$("own").onchange = async () => {
  const file = $("own").files[0];
  if (!file) return;
  try {
    const bytes = await file.arrayBuffer(), text = new TextDecoder("latin1").decode(bytes.slice(12, 4096));
    const name = /"config": ?{[^}]*"name": ?"([^"]*)"/.exec(text)?.[1];
    const machine = catalog.machines.find(each => each.name === name);
    if (!machine) throw new Error(`this page has no machine ${name ?? ""}; it has ` +
      catalog.machines.map(each => each.name).join(", "));
    demo = {name: file.name, kind: "tensor", samples: [], programs: {}, own: bytes};
    $("machine").replaceChildren(new Option(machine.title, machine.name));
    again = () => {};
    await openMachine(bytes);
  } catch (error) { failed(error); }
};

const save = (name, text) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
$("whole").onclick = () => strip.whole();
$("vcd").onclick = () => result && save(`${demo.name}.vcd`, vcd(result, catalog.events, units));
$("trace").onclick = () => result && save(`${demo.name}.json`, perfetto(result, units));
$("legend").append(...Object.entries(KINDS).map(([kind, words]) => {
  const shown = document.createElement("span"), key = document.createElement("span");
  key.className = "key";
  key.style.background = `var(--${kind})`;
  shown.append(key, words);
  return shown;
}));
$("demo").append(...catalog.demos.map(each => new Option(each.title, each.name)));
chooseDemo();
// ?example=3 runs an example at once.
const asked = new URLSearchParams(location.search).get("example");
if (asked !== null) $("examples").children[Number(asked)]?.click();
