"""Turns at a board: who has it, for how long, and who is next."""

import threading
import time

import pytest
from device_programs import check_run, endless, tiny
from server_clients import answer, asking, connect, limited, soon

import tosaic
from tosaic.driver.server.turn import ClientTurn
from tosaic.driver.transports.wire import (
    FIELDS,
    LENGTH,
    Outcome,
    Request,
    send_message,
)
from tosaic.hw.csr_map import REGISTER

pytestmark = pytest.mark.xdist_group("nano")


@pytest.fixture(scope="module")
def program():
    return tiny("nano")


def test_someone_who_does_not_give_the_device_back(program, monkeypatch):
    with limited(hold_seconds=2.0) as server:
        greedy = connect(server)
        greedy.acquire()
        monkeypatch.setattr("tosaic.driver.transports.tcp.TURN_SECONDS", 0)
        patient = tosaic.Device(connect(server))
        with pytest.raises(
            tosaic.DeviceError, match=r": another client has the board and does not give it back$"
        ):
            check_run(patient, program, 3)
        # Silence is not for ever, either.
        monkeypatch.setattr("tosaic.driver.transports.tcp.TURN_SECONDS", 60)
        check_run(patient, program, 4)
        with pytest.raises(tosaic.DeviceError, match=r": who has the board and is silent for 2 s loses it$"):
            greedy.read_registers(0, 1)
        assert greedy.acquire() is False


def test_a_request_that_comes_byte_by_byte(program):
    """The time to say something is for the whole request."""
    with limited(hold_seconds=2.0) as server:
        greedy = asking(server)
        assert answer(greedy)[0] == Outcome.OK
        with pytest.raises(OSError):
            for _ in range(5000):
                greedy.sendall(LENGTH.pack(1 << 20)[:1])
                time.sleep(0.01)
        greedy.close()
        check_run(tosaic.Device(connect(server)), program, 4)


def test_a_turn_has_an_end(program):
    with limited(turn_seconds=2.0) as server:
        greedy = connect(server)
        greedy.acquire()
        with pytest.raises(
            tosaic.DeviceError, match=r"^tcp://.*: the turn of 2 s is over, others may want the board$"
        ):
            while True:
                greedy.read_registers(0, 1)
        with pytest.raises(tosaic.DeviceError, match=r": the turn of 2 s is over, "):
            greedy.read_registers(0, 1)
        check_run(tosaic.Device(connect(server)), program, 4)


def test_a_program_has_an_end(program):
    """A loop is stopped, and its client told; who asks next has a machine that is idle."""
    with limited(run_seconds=0.3) as server:
        device = tosaic.Device(connect(server))
        with pytest.raises(
            tosaic.DeviceError,
            match=r"^tcp://.*: the program was stopped after 0\.3 s, the longest run that this board server allows$",
        ):
            device.run(endless("nano"), endless("nano").memory())
        check_run(device, program, 4)
        # Nor does it go on when its client lets go of the device.
        other = connect(server)
        other.acquire()
        forever = endless("nano")
        other.write_memory(0, forever.image)
        other.start(forever.memory_bytes, forever.program_address, forever.program_bytes)
        other.release()
        other.acquire()
        assert other.read_registers(REGISTER["STATUS"].offset, 1) == [1]


def test_turns_of_groups():
    """One turn for each group of those who wait, in the order of asking within a group; who is gone has no place."""
    turn, order, gone = ClientTurn(), [], set()
    assert turn.take("first", 0, "a")
    assert not turn.take("impatient", 0, "b")

    def ask(name):
        got = turn.take(name, 10, name[0], lambda: name in gone)
        order.append((name, got))

    threads = []
    for name in ("a1", "a2", "a3", "b1", "ghost", "b2", "c1"):
        threads.append(threading.Thread(target=ask, args=(name,)))
        threads[-1].start()
        time.sleep(0.05)  # they ask one after the other
    turn.give("a3")  # not its turn
    gone.add("ghost")
    for given, name in enumerate(("first", "b1", "c1", "a1", "b2")):
        turn.give(name)
        for _ in range(1000):
            if sum(got for _, got in order) > given:
                break
            time.sleep(0.001)
    turn.end()
    for thread in threads:
        thread.join()
    assert [each for each in order if each[0] != "ghost"] == [
        *((name, True) for name in ("b1", "c1", "a1", "b2", "a2")),
        ("a3", False),
    ]
    assert ("ghost", False) in order


def test_ghosts_keep_nobody_out(program):
    """Who hangs up while he waits loses his place at once: among the clients, and in the order of turns."""
    with limited(clients_per_address=4) as server:
        worker = connect(server)
        worker.acquire()
        for _ in range(3):
            ghosts = [asking(server) for _ in range(3)]
            with pytest.raises(tosaic.DeviceError, match="has all the clients it takes"):
                connect(server)
            for ghost in ghosts:
                ghost.close()
            for _ in range(1000):
                if server.clients == 1:
                    break
                time.sleep(0.01)
            assert server.clients == 1
        honest = tosaic.Device(connect(server))
        worker.close()
        check_run(honest, program, 3)


def test_keepers_of_one_address_leave_a_turn_to_another(program):
    """Eight keep their turns of 0.3 s and ask again at once; one of another address waits for one turn at most."""
    with limited(turn_seconds=0.3) as server:
        stop, turns = threading.Event(), []

        def keep():
            connection = asking(server, "127.0.0.2")
            status = FIELDS[Request.READ_REGISTERS].pack(REGISTER["STATUS"].offset, 1)
            read = bytes([Request.READ_REGISTERS]) + status
            again = bytes([Request.ACQUIRE]) + FIELDS[Request.ACQUIRE].pack(60)
            asked = again
            while not stop.is_set():
                told = answer(connection)
                if asked is again:
                    turns.append(connection)
                asked = again if told[0] == Outcome.NOT_ACQUIRED else read
                send_message(connection, asked, soon())
            connection.close()

        keepers = [threading.Thread(target=keep) for _ in range(8)]
        for keeper in keepers:
            keeper.start()
        while not turns:
            time.sleep(0.01)
        honest, others = connect(server), []
        for _ in range(3):
            before = len(turns)
            honest.acquire()
            others.append(len(turns) - before)
            honest.release()
        stop.set()
        honest.close()
        for keeper in keepers:
            keeper.join()
        # One that was given before this one asked may be told after.
        assert max(others) <= 2, others
