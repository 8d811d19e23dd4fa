// Runs the accelerator beside the page, so that drawing never waits for it. Orders are carried out one after the other.

import {Machine, parse} from "./machine.js";
import {bytesOf} from "./files.js";

let machine;

async function open({catalog, wasm, busBytes, program}) {
  const began = performance.now();
  const [code, file] = await Promise.all([bytesOf(wasm), program instanceof ArrayBuffer ? program : bytesOf(program)]);
  const module = await WebAssembly.compile(code);
  machine = await Machine.create(module, catalog, busBytes);
  machine.load(parse(file, catalog));
  const {config, inputs, outputs, layers} = machine.program;
  return {config, inputs, outputs, layers, milliseconds: performance.now() - began};
}

async function run({inputs, watched}) {
  const began = performance.now();
  machine.start(inputs);
  while (!machine.proceed()) {
    self.postMessage({progress: machine.recorded()});
    await new Promise(done => setTimeout(done, 0));
  }
  const results = machine.results();
  if (!watched) delete results.events;
  return {...results, milliseconds: performance.now() - began};
}

function restart() {
  for (const state of machine.program.states ?? []) machine.fresh(state);
}

const orders = {open, run, restart};
let last = Promise.resolve();
self.onmessage = ({data: {order, id, ...rest}}) => {
  last = last.then(() => orders[order](rest)).then(
    result => self.postMessage({id, result}), error => self.postMessage({id, error: error.message}));
};
