"""The example that hears: file format, spectrum, the graphs against the float network, and integers on targets."""

import io
import struct
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "hear"))
import hear_audio
import hear_tosa
import hear_weights
from hear_float import FloatWhisper, is_over, next_token, settled
from hear_weights import END, HEAD, HEADS, MELS, PROMPT, WIDTH, Parameters

from tosaic import InputError, Session
from tosaic.driver.quantize import quantize_graph

POSITIONS, CONTEXT, VOCABULARY = 12, 8, 96


def small_whisper() -> Parameters:
    """Random weights of the real width, with one layer each and few tokens."""
    random = np.random.default_rng(0)
    made: Parameters = {}

    def linear(name: str, outputs: int, inputs: int = WIDTH, *kernel: int) -> None:
        scale = (inputs * max(1, *kernel, 1)) ** -0.5
        made[f"{name}/weight"] = random.normal(0, scale, (outputs, inputs, *kernel)).astype(np.float32)
        made[f"{name}/bias"] = random.normal(0, 0.1, outputs).astype(np.float32)

    def norm(name: str) -> None:
        made[f"{name}/gamma"] = random.uniform(0.5, 1.5, WIDTH).astype(np.float32)
        made[f"{name}/beta"] = random.normal(0, 0.1, WIDTH).astype(np.float32)

    linear("encoder/conv1", WIDTH, MELS, 3)
    linear("encoder/conv2", WIDTH, WIDTH, 3)
    for part in ("encoder", "decoder"):
        for attention in ("self_attention", "attention")[: 1 if part == "encoder" else 2]:
            name = f"{part}/layer_0/{attention}"
            norm(f"{name}/layer_norm")
            linear(f"{name}/linear_0", WIDTH * (3 if attention == "self_attention" else 1))
            last = "linear_1" if attention == "self_attention" else "linear_2"
            linear(f"{name}/{last}", WIDTH)
            if attention == "attention":
                linear(f"{name}/linear_1", 2 * WIDTH)
        norm(f"{part}/layer_0/ffn/layer_norm")
        linear(f"{part}/layer_0/ffn/linear_0", 4 * WIDTH)
        linear(f"{part}/layer_0/ffn/linear_1", WIDTH, 4 * WIDTH)
        norm(f"{part}/layer_norm")
        places = random.normal(0, 0.3, (64, WIDTH)).astype(np.float32)
        made[f"{part}/position_encodings/encodings"] = places
    made["decoder/embeddings/weight"] = random.normal(0, 0.3, (VOCABULARY, WIDTH)).astype(np.float32)
    return made


def spectra(count: int) -> np.ndarray:
    random = np.random.default_rng(1)
    return random.normal(0, 0.5, (count, 1, 2 * POSITIONS, MELS)).astype(np.float32)


def as_fed(place: int, token: int) -> dict[str, np.ndarray]:
    return {"token": np.array([[token]], np.int32), "place": np.array([[place]], np.int32)}


def test_step_by_step_is_the_whole_sentence() -> None:
    parameters, tokens = small_whisper(), [3, 80, 41, 7, 0, 95]
    reference, mel = FloatWhisper(parameters), spectra(1)[0]
    audio = reference.encode(mel[0])
    alone = Session(hear_tosa.encoder_graph(parameters, POSITIONS, for_decoder=False), "golden")
    np.testing.assert_allclose(alone.run({"mel": mel})["audio"][0], audio, atol=2e-4)
    heard = Session(hear_tosa.encoder_graph(parameters, POSITIONS), "golden").run({"mel": mel})
    decoder = Session(hear_tosa.decoder_graph(parameters, POSITIONS, CONTEXT), "golden")
    for place, logits in enumerate(reference.decode(audio, tokens)):
        got = decoder.run({**as_fed(place, tokens[place]), **heard})["logits"]
        np.testing.assert_allclose(got[0, 0], logits, atol=2e-3)


@pytest.mark.nightly
@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.xdist_group("base"))])
def test_an_encoder_block_and_decoder_steps_are_golden_s(target: str) -> None:
    parameters, mels = small_whisper(), spectra(4)
    encoder = hear_tosa.encoder_graph(parameters, POSITIONS)
    integers = quantize_graph(encoder, {"mel": mels}, outputs="int16").result
    fed = {"mel": integers.inputs["mel"].quantize(mels[0])}
    session = Session(integers.graph, target, "base", keep_layers=True)
    session.run(fed, check=True)
    assert len(session.kept) > 30

    decoder, samples = hear_tosa.decoder_graph(parameters, POSITIONS, CONTEXT), []
    floats = Session(decoder, "golden")
    for mel in mels:
        heard = Session(encoder, "golden").run({"mel": mel})
        floats.state.reset()
        for place in range(CONTEXT):
            samples.append({**as_fed(place, 11 * place), **heard, **floats.state})
            floats.run({**as_fed(place, 11 * place), **heard})
    stacked = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
    step = quantize_graph(decoder, stacked, outputs="int16").result
    steps = Session(step.graph, target, "base", keep_layers=True)
    kept = {
        name: step.inputs[name].quantize(samples[0][name])
        for name in step.inputs
        if name not in decoder.states
    }
    wanted = FloatWhisper(parameters).decode(
        FloatWhisper(parameters).encode(mels[0][0]), [11 * place for place in range(CONTEXT)]
    )
    for place in range(3):
        logits = steps.run({**as_fed(place, 11 * place), **kept}, check=True)["logits"]
        error = step.outputs["logits"].dequantize(logits)[0, 0] - wanted[place]
        assert np.square(error).mean() < 1e-2 * np.square(wanted[place]).mean()


def test_the_next_token_is_text_and_a_loop_ends() -> None:
    logits = np.zeros(END + 1, np.float32)
    logits[[END, 220, 77]] = 3, 2, 1
    assert next_token(logits, list(PROMPT)) == 77
    assert next_token(logits, [*PROMPT, 77]) == END
    assert is_over([*PROMPT, END], 99) and is_over([*PROMPT, 5], 3) and not is_over([*PROMPT, 5, 5, 5, 5], 99)
    said = [*PROMPT, *range(9)]
    assert is_over([*said, *range(2, 8)], 99) and not is_over([*said, *range(2, 7)], 99)


def test_a_second_copy_is_not_told() -> None:
    """Tokens wait while they may be one; they come when it goes on otherwise, or the text ends."""
    said = [*PROMPT, *range(9)]
    assert [settled([*said, *range(n)], 99) for n in range(7)] == [len(said)] * 7
    assert settled([*said, *range(5), 77], 99) == len(said) + 6
    assert settled([*said, *range(5), END], 99) == len(said) + 6
    assert settled([*said, *range(5)], len(said) + 5) == len(said) + 5


def ctranslate2_file(variables: dict[str, np.ndarray], version: int = 6) -> bytes:
    def string(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    codes = {"float32": 0, "int8": 1, "float16": 4}
    made = struct.pack("<I", version) + string("WhisperSpec") + struct.pack("<II", 3, len(variables))
    for name, value in variables.items():
        made += string(name) + struct.pack("<B", value.ndim) + struct.pack(f"<{value.ndim}I", *value.shape)
        made += struct.pack("<BI", codes[str(value.dtype)], value.nbytes) + value.tobytes()
    return made


def test_a_ctranslate2_file_is_read_or_refused() -> None:
    wanted = {"a/weight": np.arange(6, dtype=np.float16).reshape(2, 3), "heads": np.array(6, np.int8)}
    data = ctranslate2_file(wanted)
    found = hear_weights.read_variables(io.BytesIO(data))
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == value.dtype
    for cut in range(0, len(data) - 1, 7):
        with pytest.raises(InputError, match="CTranslate2 file"):
            hear_weights.read_variables(io.BytesIO(data[:cut]))
    with pytest.raises(InputError, match="no CTranslate2 file of version 6"):
        hear_weights.read_variables(io.BytesIO(ctranslate2_file(wanted, version=5)))


def test_vocabulary_entries_are_bytes() -> None:
    assert hear_weights.spelled("Ġthe") == b" the" and hear_weights.spelled("Ċ") == b"\n"
    assert hear_weights.spelled("Ã©") == "é".encode()
    whisper = hear_weights.Whisper({}, [b" caf", b"\xc3", b"\xa9"])
    assert whisper.text([0, 1]) == " caf" and whisper.text([0, 1, 2]) == " café"


def test_a_tone_is_in_its_mel_band(tmp_path: Path) -> None:
    rate, hertz = 22_050, 1000.0
    tone = np.round(12000 * np.sin(2 * np.pi * hertz * np.arange(rate) / rate)).astype("<i2")
    with wave.open(str(tmp_path / "tone.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.repeat(tone, 2).tobytes())
    samples = hear_audio.read_wav(tmp_path / "tone.wav")
    assert samples.shape == (16_000,)
    mel = hear_audio.log_mel(samples, 60)
    assert mel.shape == (120, MELS)
    # 1 kHz is mel 15 of Slaney's scale, whose 82 edges end at mel 45.245 (8 kHz).
    assert mel[50].argmax() == round(15 / 45.245 * 81) - 1
    # Silence behind the sound is 8 decades below its loudest.
    assert mel[110:].max() == mel.min() == pytest.approx(mel.max() - 2, abs=1e-5)
    (tmp_path / "no.wav").write_bytes(b"RIFF")
    with pytest.raises(InputError, match="no readable wav file"):
        hear_audio.read_wav(tmp_path / "no.wav")


def test_windows_hold_the_sound() -> None:
    from prepare import Window

    assert (
        Window.of(1) == Window(1)
        and Window.of(16_000 * 3) == Window(3)
        and Window.of(16_000 * 3 + 1) == Window(4)
    )
    assert Window(5).positions == 250 and HEAD * HEADS == WIDTH
