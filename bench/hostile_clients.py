"""Hostile clients against a board server while honest jobs run: `python bench/hostile_clients.py --minutes 2`.

Some clients do not know the token: they connect and say nothing, say a byte now and then, or guess. Some know it and
ask for nonsense, keep the device, vanish in the middle or while they wait, run endless programs and programs that
leave their window, and look for what others left. Honest jobs are the small digits network with a new image each,
compared with golden. Prints how many jobs were right, and what the hostile clients did; exit code 1 unless all were,
or if anybody found anything of others.
"""

import argparse
import collections
import contextlib
import dataclasses
import pathlib
import random
import socket
import threading
import time

import numpy as np

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.driver.server import BoardServer, ServerLimits
from tosaic.driver.transports import RegisterTransport, RtlTransport, TcpTransport, open_transport
from tosaic.driver.transports.wire import FIELDS, LENGTH, MAX_MESSAGE_BYTES, Request
from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS, Config
from tosaic.hw.csr_map import REGISTERS
from tosaic.hw.isa import Opcode, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.golden import evaluate

MODEL = pathlib.Path(__file__).parents[1] / "examples" / "digits" / "digits_tiny.tosa"
TOKEN = "the token of this benchmark"
PRIVATE = b"what an honest client or a hostile one left behind"
HONEST_CLIENTS = 4
GHOSTS = 16
"""Ghosts at a time; 32 clients of an address are taken."""
CODE_AT = 4096
SEEN_BYTES = 4096
"""Bytes of activation memory, at a random place, that a spy looks at; all of it takes a minute on a simulated line."""
LIMITS = ServerLimits(handshake_seconds=2, hold_seconds=0.5, run_seconds=0.5)


class Attack:
    """What all hostile clients share: the server, the time they have, and the record of what they did."""

    def __init__(self, server: BoardServer, config: Config, stop: threading.Event):
        self.server, self.config, self.stop = server, config, stop
        self.done: collections.Counter[str] = collections.Counter()
        self.found: list[str] = []

    def client(self) -> TcpTransport:
        transport = TcpTransport(*self.server.address, TOKEN)
        transport.acquire()
        return transport

    def program(self, transport: TcpTransport, assembler: Assembler) -> None:
        image = np.zeros(2 * CODE_AT, np.uint8)
        size = assembler.place(image, CODE_AT)
        transport.make_idle()
        transport.write_memory(CODE_AT, image[CODE_AT : CODE_AT + size].tobytes())
        transport.start(transport.identity.memory_bytes, CODE_AT, size)

    def look(self, what: str, data: bytes) -> None:
        if any(data):
            self.found.append(f"{what} has {sum(map(bool, data))} bytes of others")


def idle_strangers(attack: Attack, rng: random.Random) -> None:
    sockets = [socket.create_connection(attack.server.address) for _ in range(64)]
    attack.stop.wait(rng.uniform(0, 1))
    for connection in sockets:
        connection.close()


def slow_stranger(attack: Attack, rng: random.Random) -> None:
    with socket.create_connection(attack.server.address) as connection:
        for _ in range(20):
            connection.sendall(b"x")
            attack.stop.wait(0.1)


def guesser(attack: Attack, rng: random.Random) -> None:
    for _ in range(10):
        with contextlib.suppress(DeviceError):
            TcpTransport(*attack.server.address, str(rng.random())).close()


def babbler(attack: Attack, rng: random.Random) -> None:
    """Frames of any length, operations and fields at random."""
    transport = attack.client()
    for _ in range(30):
        request = rng.choice(list(Request))
        body = bytes([request]) + rng.randbytes(FIELDS[request].size + rng.choice((0, 0, 0, 3)))
        length = rng.choice([len(body)] * 8 + [0, MAX_MESSAGE_BYTES + 1, len(body) + 7])
        transport._connection.sendall(LENGTH.pack(length) + body)
    transport.close()


def keeper(attack: Attack, rng: random.Random) -> None:
    """Keeps the device, silently or by asking again and again."""
    transport = attack.client()
    transport.write_memory(0, PRIVATE)
    if rng.random() < 0.8:
        attack.stop.wait(rng.uniform(0, 1))
    else:
        while not attack.stop.is_set():
            transport.read_registers(0, 4)
    transport.close()


def ghosts(attack: Attack, rng: random.Random) -> None:
    """Ask for the device and hang up while they wait, as many as the server takes from an address."""
    request = bytes([Request.ACQUIRE]) + FIELDS[Request.ACQUIRE].pack(600)
    waiting = []
    with contextlib.suppress(DeviceError):
        for _ in range(GHOSTS):
            waiting.append(TcpTransport(*attack.server.address, TOKEN))
            waiting[-1]._connection.sendall(LENGTH.pack(len(request)) + request)
    attack.stop.wait(rng.uniform(0, 1))
    for transport in waiting:
        transport._connection.close()


def endless(attack: Attack, rng: random.Random) -> None:
    transport = attack.client()
    assembler = Assembler(attack.config)
    assembler.emit(Opcode.BRANCH, target=assembler.offset)
    attack.program(transport, assembler)
    if rng.random() < 0.5:
        return transport.close()
    while not attack.stop.is_set():
        transport.wait(1)
    return None


def breakout(attack: Attack, rng: random.Random) -> None:
    """Programs that load and store outside the window; registers that set it."""
    transport = attack.client()
    size = transport.identity.memory_bytes
    assembler = Assembler(attack.config)
    if rng.random() < 0.5:
        assembler.emit(Opcode.LOAD_GO, space=Space.AM, memory_address=size, row_bytes=64, rows=1)
    assembler.emit(Opcode.STORE_GO, memory_address=rng.choice((size, 1 << 31)), row_bytes=64, rows=1)
    attack.program(transport, assembler)
    transport.wait(0)
    for call in (
        lambda: transport.start(size + 4096, 0, 32),
        lambda: transport.write_memory(size - 1, PRIVATE),
        lambda: transport.read_registers(rng.choice(REGISTERS).offset, 1),
    ):
        with contextlib.suppress(DeviceError):
            call()
    transport.close()


def spy(attack: Attack, rng: random.Random) -> None:
    """Looks for what others left in external and in activation memory; leaves something itself."""
    transport = attack.client()
    size = transport.identity.memory_bytes
    attack.look("external memory", transport.read_memory(0, min(size, 1 << 19)))
    assembler = Assembler(attack.config)
    am_bytes = attack.config.am_bytes
    assembler.emit(Opcode.STORE_GO, memory_address=2 * CODE_AT, row_bytes=am_bytes, rows=1)
    attack.program(transport, assembler)
    for attempt in range(10):
        transport.wait(attempt)
    seen = min(am_bytes, SEEN_BYTES)
    place = rng.randrange(am_bytes - seen + 1)
    attack.look("activation memory", transport.read_memory(2 * CODE_AT + place, seen))
    transport.write_memory(0, PRIVATE * 100)
    assembler = Assembler(attack.config)
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, row_bytes=len(PRIVATE) * 100, rows=1)
    attack.program(transport, assembler)
    transport.wait(0)
    transport.close()


HOSTILE = (idle_strangers, slow_stranger, guesser, babbler, keeper, ghosts, endless, breakout, spy)


def attack_on(attack: Attack, kind, seed: int) -> None:
    rng = random.Random(seed)
    while not attack.stop.is_set():
        with contextlib.suppress(DeviceError, OSError, AttributeError):
            # AttributeError: the server hung up on a connection that a babbler writes to.
            kind(attack, rng)
        attack.done[kind.__name__] += 1
        attack.stop.wait(rng.uniform(0, 0.5))


class Honest:
    """Jobs whose results are known, spread over the time."""

    def __init__(self, server: BoardServer, config: Config):
        self._server = server
        self._graph = read_tosa(MODEL)
        self._program = compile_graph(self._graph, config)
        self._began = time.monotonic()
        self.right = 0
        self.problems: list[str] = []

    def jobs(self, first: int, count: int, seconds: float) -> None:
        """Half of them connect anew, half go on with the connection they have."""
        begin = time.monotonic()
        device: tosaic.Device | None = None
        for number in range(count):
            time.sleep(max(0.0, begin + number * seconds / count - time.monotonic()))
            try:
                if device is None:
                    device = tosaic.Device(TcpTransport(*self._server.address, TOKEN))
                self._job(device, first + number)
            except DeviceError as error:
                self.problems.append(f"job {first + number}: {error}")
            if device is not None and number % 2:
                device.close()
                device = None

    def _job(self, device: tosaic.Device, seed: int) -> None:
        image = np.random.default_rng(seed).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)
        window = self._program.memory()
        self._program.inputs[0].write(window, image)
        device.run(self._program, window)
        wanted = evaluate(self._graph, {"image": image})["scores"]
        if np.array_equal(self._program.outputs[0].read(window), wanted):
            self.right += 1
            if self.right % 10 == 0:
                print(f"{self.right} right after {time.monotonic() - self._began:.0f} s", flush=True)
        else:
            self.problems.append(f"job {seed}: wrong")


def main() -> int:
    parser = argparse.ArgumentParser(description="hostile clients against a board server")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--device", help="URI of the device (default: the RTL of --config in this process)")
    parser.add_argument("--config", default="nano", choices=CONFIGS)
    parser.add_argument(
        "--turn-seconds", type=float, default=5.0, help="longest turn; a simulated board's line takes seconds"
    )
    arguments = parser.parse_args()
    config = CONFIGS[arguments.config]
    device = (
        open_transport(arguments.device) if arguments.device else RtlTransport(config, memory_bytes=1 << 20)
    )
    assert isinstance(device, RegisterTransport)
    limits = dataclasses.replace(LIMITS, turn_seconds=arguments.turn_seconds)
    server = BoardServer(device, TOKEN, limits=limits)
    server.check()
    stop = threading.Event()
    attack, honest = Attack(server, config, stop), Honest(server, config)
    hostile = [
        threading.Thread(target=attack_on, args=(attack, kind, seed), daemon=True)
        for seed, kind in enumerate(HOSTILE)
    ]
    share, seconds = arguments.jobs // HONEST_CLIENTS, 60 * arguments.minutes
    workers = [
        threading.Thread(target=honest.jobs, args=(share * number, share, seconds))
        for number in range(HONEST_CLIENTS)
    ]
    began = time.monotonic()
    for thread in (*hostile, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    server.close()
    print(f"{honest.right} right of {share * HONEST_CLIENTS} honest jobs in {time.monotonic() - began:.0f} s")
    print("hostile: " + ", ".join(f"{name} {count}" for name, count in sorted(attack.done.items())))
    for problem in (*honest.problems, *attack.found):
        print(problem)
    return int(honest.right != share * HONEST_CLIENTS or bool(attack.found))


if __name__ == "__main__":
    raise SystemExit(main())
