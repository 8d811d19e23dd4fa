"""The encoder alone, without what the decoder reads of it: SQNR of `audio` on sentences of their own, and cycles.

python examples/hear/encoder_figures.py [--seconds S] [--config base]
"""

import argparse

import numpy as np
from hear_audio import Voice, log_mel
from hear_float import FloatWhisper
from hear_sentences import JUDGED
from hear_tosa import encoder_graph
from hear_weights import load
from prepare import Window, encoder_samples

from tosaic import Session
from tosaic.driver.quantize import quantize_graph

OTHERS = (*JUDGED[:1], *JUDGED[9:14])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--config", default="base")
    chosen = parser.parse_args()
    window, whisper, voice = Window(chosen.seconds), load(), Voice()
    graph = encoder_graph(whisper.parameters, window.positions, for_decoder=False)
    found = quantize_graph(graph, {"mel": encoder_samples(window)}, outputs="int16").result
    golden, reference = Session(found.graph, "golden"), FloatWhisper(whisper.parameters)
    powers = []
    for sentence in OTHERS:
        mel = log_mel(voice.say(sentence), window.positions)
        wanted = reference.encode(mel).astype(np.float64)
        integers = golden.run({"mel": found.inputs["mel"].quantize(mel[None])})["audio"]
        noise = found.outputs["audio"].dequantize(integers)[0] - wanted
        powers.append([np.square(wanted).sum(), np.square(noise).sum()])
        print(f"{10 * np.log10(powers[-1][0] / powers[-1][1]):.1f} dB: {sentence}", flush=True)
    signal, noise_power = np.sum(powers, axis=0)
    print(f"{10 * np.log10(signal / noise_power):.1f} dB in all", flush=True)
    session = Session(found.graph, "emulator", chosen.config)
    session.run({"mel": found.inputs["mel"].quantize(mel[None])}, check=True)
    assert session.result is not None
    print(f"{session.result.cycles:,} cycles on {chosen.config}, equal to golden")


if __name__ == "__main__":
    main()
