// One accelerator in WebAssembly: loads programs of `tosaic compile -o FILE.tsc`, runs them and tells what happened. A
// page's worker and Node use the same file; nothing here knows a network or a number of the hardware: `catalog` has them.

const ARRAYS = {BOOL: Uint8Array, INT8: Int8Array, UINT8: Uint8Array, INT16: Int16Array, UINT16: Uint16Array,
  INT32: Int32Array, FP32: Float32Array};
const MEM_BASE = 0x10000000, SLICE = 20000, PROTOCOL = 2, TIMEOUT = 1;
const text = new TextDecoder();

export class Failure extends Error {}

// The program in the bytes of a .tsc file.
export function parse(file, catalog) {
  const bytes = new Uint8Array(file);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (bytes.length < 12 || new TextDecoder("latin1").decode(bytes.subarray(0, 8)) !== catalog.magic)
    throw new Failure("this is not a program of tosaic compile (a .tsc file)");
  const length = view.getUint32(8, true);
  const program = JSON.parse(text.decode(bytes.subarray(12, 12 + length)));
  if (program.isa_hash !== catalog.isa_hash)
    throw new Failure("this program is for another instruction set: compile it with the version that made this page");
  if (program.boot) throw new Failure("this program has a boot part: compile it without --compress nnr");
  return {...program, image: bytes.slice(12 + length, -4)};
}

// Of each element of a tensor in memory, whose axes lie there in `order`, the place in row-major order.
export function places({shape, order}) {
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  return order.reduce((found, axis) => found.flatMap(
    place => Array.from({length: shape[axis]}, (_, i) => place + i * strides[axis])), [0]);
}

// What little of WASI the library asks for: no file, no network.
function wasi(memory) {
  const view = () => new DataView(memory().buffer);
  const none = ["fd_close", "fd_fdstat_get", "fd_fdstat_set_flags", "fd_prestat_get", "fd_prestat_dir_name", "fd_read",
    "fd_seek", "path_open"];
  return {
    clock_time_get: (id, precision, at) => {
      view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    },
    environ_sizes_get: (count, size) => {
      view().setUint32(count, 0, true);
      view().setUint32(size, 0, true);
      return 0;
    },
    environ_get: () => 0,
    ...Object.fromEntries(none.map(name => [name, () => 8])),
    fd_write: (file, vectors, count, written) => {
      let total = 0;
      for (let i = 0; i < count; ++i) total += view().getUint32(vectors + 8 * i + 4, true);
      view().setUint32(written, total, true);
      return 0;
    },
    proc_exit: code => { throw new Failure(`the simulator gave up (${code})`); },
  };
}

export class Machine {
  // `busBytes`: the width of the memory bus.
  static async create(module, catalog, busBytes) {
    const machine = new Machine();
    const {exports} = await WebAssembly.instantiate(module, {wasi_snapshot_preview1: wasi(() => exports.memory)});
    machine.x = exports;
    Object.assign(machine, {catalog, busBytes});
    exports._initialize();
    machine.simulator = exports.tosaic_create(0);
    return machine;
  }

  load(program) {
    if (program.others?.length) throw new Failure("a page runs programs of one core");
    this.program = program;
    this.at = this.x.malloc(program.memory_bytes) >>> 0;
    if (!this.at) throw new Failure(`a page has no room for ${program.memory_bytes} bytes of memory`);
    // The memory may have grown: views are made afresh.
    const memory = new Uint8Array(this.x.memory.buffer, this.at, program.memory_bytes);
    memory.fill(0);
    memory.set(program.image);
    this.x.tosaic_set_memory(this.simulator, this.at, BigInt(program.memory_bytes), BigInt(MEM_BASE));
    this.x.tosaic_set_timing(this.simulator, 50, this.busBytes * 1000, 0, 0n);
    for (const [name, wanted] of [["ISA_HASH", program.isa_hash], ["CONFIG_HASH", program.config_hash]])
      if (this.read(name) !== wanted) throw new Failure(`this machine is not the one the program is for (${name})`);
    for (const state of program.states ?? []) this.fresh(state);
  }

  fresh(state) {
    const memory = new Uint8Array(this.x.memory.buffer, this.at);
    const {address, initial_address: first, bytes} = state;
    if (first === undefined || first === null) memory.fill(0, address, address + bytes);
    else memory.copyWithin(address, first, first + bytes);
  }

  read(name, index = 0) {
    const value = this.x.tosaic_control_read(this.simulator, this.catalog.registers[name] + 4 * index);
    if (value < 0n) throw new Failure(`register ${name} cannot be read`);
    return Number(value);
  }

  write(name, value) {
    if (this.x.tosaic_control_write(this.simulator, this.catalog.registers[name], value | 0) < 0n)
      throw new Failure(`register ${name} cannot be written`);
  }

  tensor(port) {
    const type = ARRAYS[port.dtype];
    return new type(this.x.memory.buffer, this.at + port.address, port.bytes / type.BYTES_PER_ELEMENT);
  }

  put(port, values) {
    const stored = this.tensor(port);
    if (port.order) places(port).forEach((place, i) => stored[i] = values[place]);
    else stored.set(values);
  }

  taken(port) {
    const stored = this.tensor(port), values = stored.slice();
    if (port.order) places(port).forEach((place, i) => values[place] = stored[i]);
    return values;
  }

  start(inputs) {
    for (const port of this.program.inputs) this.put(port, inputs[port.name]);
    this.x.tosaic_record(this.simulator);
    const {program_address: address, program_bytes: bytes, memory_bytes: size} = this.program;
    const values = {MEM_BASE, MEM_SIZE: size, PROGRAM_ADDRESS: address, PROGRAM_BYTES: bytes,
      WATCHDOG: this.catalog.watchdog_cycles};
    for (const [name, value] of Object.entries(values)) this.write(name, value);
    this.write("CONTROL", this.catalog.start);
  }

  // Clocks the machine; whether its program has ended.
  proceed() {
    const outcome = this.x.tosaic_run(this.simulator, BigInt(SLICE));
    if (outcome === PROTOCOL) throw new Failure("the machine broke a rule of its bus");
    if (outcome === TIMEOUT) return false;
    this.write("IRQ", this.catalog.acknowledge);
    if (this.read("STATUS") & this.catalog.error)
      throw new Failure(`the program ends with ${this.catalog.errors[this.read("ERROR")] ?? "an error"}`);
    return true;
  }

  recorded() { return Number(this.x.tosaic_recorded_cycles(this.simulator, 0)); }

  results() {
    const outputs = Object.fromEntries(this.program.outputs.map(port => [port.name, this.taken(port)]));
    const cycles = this.read("CYCLES") + this.read("CYCLES_HIGH") * 2 ** 32;
    const layers = [];
    const count = this.read("MARK_COUNT");
    for (let i = 0, from = 0; i < count; ++i) {
      this.write("MARK_INDEX", i);
      const end = this.read("MARK_CYCLE");
      layers.push({...this.program.layers[this.read("MARK_LAYER")], start: from, end});
      from = end;
    }
    if (layers.length && layers.at(-1).end < cycles)
      layers.push({name: "end", op: "", start: layers.at(-1).end, end: cycles});  // the last stores
    const counters = this.catalog.events.map((_, i) => this.read("EVENTS", i));
    const at = this.x.tosaic_recorded_events(this.simulator, 0) >>> 0;
    const events = new Uint32Array(this.x.memory.buffer, at, this.recorded()).slice();
    return {outputs, cycles, layers, counters, events};
  }
}
