"""Compiled models with compressed weights driven from C: loading decodes and checks them."""

import dataclasses

import numpy as np
import pytest
from c_programs import Host, build_host
from device_programs import GRAPH

from tosaic.compiler.build import compile_graph
from tosaic.driver.transports import RtlTransport
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

CONFIG = get_config("base")


@pytest.fixture(scope="module")
def programs():
    whole = compile_graph(GRAPH, CONFIG, compress="nnr")
    blocks = tuple(dataclasses.replace(block, crc32=block.crc32 ^ 1) for block in whole.boot.blocks)
    wrong = dataclasses.replace(whole, boot=dataclasses.replace(whole.boot, blocks=blocks))
    torn = dataclasses.replace(whole, image=b"\xff" * 16 + whole.image[16:])
    return {"whole": whole, "wrong": wrong, "torn": torn, "plain": compile_graph(GRAPH, CONFIG)}


@pytest.mark.xdist_group("base")
def test_loading_runs_the_boot_part(tmp_path, programs):
    transport = RtlTransport(CONFIG, memory_bytes=64 << 10)
    transport.memory[:] = np.random.default_rng(7).integers(0, 256, transport.memory.size, dtype=np.uint8)
    host = Host(build_host(tmp_path, programs), transport)
    image = np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)
    wanted = evaluate(GRAPH, {"image": image})["scores"]
    assert host.call("open") == "OK"
    for number, loaded in ((0, "OK"), (3, "OK"), (1, "WRONG_WEIGHTS"), (2, "MACHINE_FAULT"), (0, "OK")):
        assert host.call("load", number) == loaded
        if loaded != "OK":
            assert host.write(number, 0, image) == "NOT_LOADED"
            continue
        for _ in range(2):
            assert (host.write(number, 0, image), host.call("run", 0)) == ("OK", "OK")
            np.testing.assert_array_equal(host.read(number, 0, wanted), wanted)
    assert host.call("load", 2) == "MACHINE_FAULT"
    assert host.fault()[:2] == ("DECODE", "LOAD")
    transport.close()
