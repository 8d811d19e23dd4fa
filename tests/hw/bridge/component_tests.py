"""Where each component of hw/bridge is tested: a file of this folder, or a sentence why it has no test of its own."""

COMPONENTS = {
    "Bridge": "test_bridge.py",
    "Deframer": "test_bridge_framing.py",
    "Framer": "test_bridge_framing.py",
    "UartReceiver": "test_uart.py",
    "UartTransmitter": "test_uart.py",
}
