"""What users of the networks feed them with: one maker for each kind of input, by the name that `networks.toml` gives.

A maker takes a `Task` and returns one dictionary of arrays per run. Where a network reads what another one of the zoo
makes (embeddings, a recurrent state), the framework makes it.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import signals
from catalogue import fetch, network
from framework import framework
from signals import Source

from tosaic.compiler.ir import Graph

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass
class Task:
    """How many samples of which inputs; `run` is the network in its framework, `folder` where the wheels are."""

    graph: Graph
    count: int
    source: Source
    run: Callable[[Arrays], Arrays]
    folder: pathlib.Path

    @property
    def input(self) -> str:
        """The only input, or the first."""
        return self.graph.inputs[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the input's shape."""
        return self.graph.tensors[self.input].shape

    def alone(self, values: "list[np.ndarray] | Any") -> list[Arrays]:
        """Values of the only input, reshaped to it."""
        dtype = self.graph.tensors[self.input].dtype.numpy
        return [{self.input: np.asarray(value).reshape(self.shape).astype(dtype)} for value in values]


MAKERS: dict[str, Callable[[Task], list[Arrays]]] = {}
DESCRIPTIONS: dict[str, str] = {}
"""What each maker's data is, for the page."""


def makes(
    name: str, description: str
) -> Callable[[Callable[[Task], list[Arrays]]], Callable[[Task], list[Arrays]]]:
    """Registers a maker under the name of the list."""

    def register(maker: Callable[[Task], list[Arrays]]) -> Callable[[Task], list[Arrays]]:
        MAKERS[name], DESCRIPTIONS[name] = maker, description
        return maker

    return register


# --- sounds ----------------------------------------------------------------------------------------------------


@makes("angles", "angles from 0 to 2π")
def angles(task: Task) -> list[Arrays]:
    return task.alone(task.source.rng.uniform(0, 2 * np.pi, task.count))


@makes("openwakeword_audio", "speech-like sound as 16-bit numbers")
def openwakeword_audio(task: Task) -> list[Arrays]:
    return task.alone(
        32767 * signals.speech(task.source, task.shape[1]).clip(-1, 1) for _ in range(task.count)
    )


@makes("openwakeword_spectrogram", "openWakeWord's mel spectrogram of speech-like sound")
def openwakeword_spectrogram(task: Task) -> list[Arrays]:
    return task.alone(_mel(task, 76) for _ in range(task.count))


@makes("openwakeword_embeddings", "openWakeWord's embeddings of speech-like sound")
def openwakeword_embeddings(task: Task) -> list[Arrays]:
    embed = framework(fetch(network("openwakeword_embedding"), task.folder))
    steps, made = task.shape[1], []
    for _ in range(task.count):
        mel = _mel(task, 76 + 8 * (steps - 1))
        windows = np.stack([mel[8 * step : 8 * step + 76] for step in range(steps)])[..., None]
        made.append(embed({"input_1": windows.astype(np.float32)})["conv2d_19"])
    return task.alone(made)


def _mel(task: Task, frames: int) -> np.ndarray:
    """openWakeWord's features: its own network, then its own scaling."""
    spectrogram = framework(fetch(network("openwakeword_melspectrogram"), task.folder))
    sound = 32767 * signals.speech(task.source, 160 * frames + 480).clip(-1, 1)
    return spectrogram({"input": sound[None].astype(np.float32)})["output"].reshape(-1, 32)[:frames] / 10 + 2


@makes("micro_features", "log-mel features of speech-like sound on the model's own int8 grid, step by step")
def micro_features(task: Task) -> list[Arrays]:
    steps, bands = task.shape[1:]
    decibels = signals.mel_decibels(signals.speech(task.source, 160 * steps * task.count), bands, 480, 160)
    levels = np.clip(np.rint(decibels * 255 / 80 + 127), -128, 127)
    return task.alone(levels[steps * run : steps * (run + 1)] for run in range(task.count))


@makes("silero", "speech-like sound in windows of 32 ms, with the state that ONNX Runtime has there")
def silero(task: Task) -> list[Arrays]:
    sound = signals.speech(task.source, 512 * (task.count + 4) + 64)
    state, made = np.zeros((2, 1, 128), np.float32), []
    for window in range(task.count + 4):
        inputs = {"input": sound[None, 512 * window : 512 * window + 576], "state": state}
        made.append(inputs)
        state = task.run(inputs)["stateN"]
    return made[4:]


@makes(
    "silero_sequence", "speech-like sound in sequences of windows, with the state that ONNX Runtime has there"
)
def silero_sequence(task: Task) -> list[Arrays]:
    frames, made = task.shape[0], []
    state = {"h": np.zeros((1, 1, 128), np.float32), "c": np.zeros((1, 1, 128), np.float32)}
    sound = signals.speech(task.source, 512 * frames * (task.count + 1) + 64)
    for sequence in range(task.count + 1):
        starts = [512 * (frames * sequence + frame) for frame in range(frames)]
        inputs = {"input": np.stack([sound[start : start + 576] for start in starts]), **state}
        made.append(inputs)
        after = task.run(inputs)
        state = {"h": after["hn"], "c": after["cn"]}
    return made[1:]


@makes("mel_120", "speechmos' mel spectrum of speech-like sound")
def mel_120(task: Task) -> list[Arrays]:
    frames = task.shape[1]
    spectra = (
        signals.mel_decibels(signals.speech(task.source, 160 * frames), 120, 321, 160)
        for _ in range(task.count)
    )
    return task.alone((each[:frames] + 40) / 40 for each in spectra)


@makes("log_power_161", "log-power spectrum of speech-like sound")
def log_power_161(task: Task) -> list[Arrays]:
    frames = task.shape[1]
    sounds = (signals.speech(task.source, 160 * frames + 320) for _ in range(task.count))
    spectra = (signals.power_spectrogram(sound, 320, 160, padded=False)[:frames] for sound in sounds)
    return task.alone(10 * np.log10(np.maximum(each, 1e-10)) / 10 for each in spectra)


@makes("speech_144160", "9 s of speech-like sound")
def speech_144160(task: Task) -> list[Arrays]:
    return task.alone(signals.speech(task.source, task.shape[1]) for _ in range(task.count))


@makes(
    "echo_mel",
    "speechmos' mel spectra of speech-like far end, microphone and enhanced sound; the state is zero",
)
def echo_mel(task: Task) -> list[Arrays]:
    frames, made = task.shape[2], []
    for _ in range(task.count):
        far, near = (signals.speech(task.source, 256 * frames) for _ in range(2))
        sounds = (far, np.clip(near + 0.4 * far, -1, 1), near + 0.02 * far)
        spectra = [signals.mel_decibels(each, 160, 513, 256)[:frames] / 40 + 1 for each in sounds]
        h0 = np.zeros(task.graph.tensors["h0"].shape, np.float32)
        made.append({task.input: np.stack(spectra)[None].astype(np.float32), "h0": h0})
    return made


@makes(
    "plc_spectrogram", "speechmos' log-power spectrum of speech-like sound, and a rater drawn from N(0, 1)"
)
def plc_spectrogram(task: Task) -> list[Arrays]:
    frames, made = task.shape[2], []
    for _ in range(task.count):
        power = signals.power_spectrogram(
            signals.speech(task.source, 256 * frames + 512), 512, 256, padded=False
        )
        rater = task.source.rng.normal(size=(1, 64)).astype(np.float32)
        spectrum = np.log(np.maximum(power[:frames], 1e-8)).astype(np.float32)
        made.append({task.input: spectrum[None, None], "rater_embed": rater})
    return made


@makes("music", "notes with overtones")
def music(task: Task) -> list[Arrays]:
    return task.alone(signals.music(task.source, task.shape[1]) for _ in range(task.count))


@makes("whisper_80", "Whisper's log-mel features of speech-like sound")
def whisper_80(task: Task) -> list[Arrays]:
    made = []
    for _ in range(task.count):
        sound = signals.speech(task.source, 160 * task.shape[2])
        mel = signals.power_spectrogram(sound, 400, 160)[: task.shape[2]] @ signals.mel_filters(
            80, 400, 16000
        )
        logs = np.log10(np.maximum(mel, 1e-10))
        made.append(((np.maximum(logs, logs.max() - 8) + 4) / 4).T)
    return task.alone(made)


@makes("birdsong", "chirps over wind, 3 s")
def birdsong(task: Task) -> list[Arrays]:
    return task.alone(signals.birdsong(task.source, task.shape[1]) for _ in range(task.count))


# --- pictures --------------------------------------------------------------------------------------------------


def _photographs(task: Task, scale: float, offset: float) -> list[Arrays]:
    first = task.shape[1] == 3
    height, width = task.shape[2:] if first else task.shape[1:3]
    pictures = (signals.photograph(task.source, height, width) * scale + offset for _ in range(task.count))
    return task.alone(each.transpose(2, 0, 1) if first else each for each in pictures)


@makes("photographs_0_1", "pieces of scikit-learn's two photographs, 0 to 1")
def photographs_0_1(task: Task) -> list[Arrays]:
    return _photographs(task, 1 / 255, 0)


@makes("photographs_signed", "pieces of scikit-learn's two photographs, -1 to 1")
def photographs_signed(task: Task) -> list[Arrays]:
    return _photographs(task, 2 / 255, -1)


@makes("photographs_255", "pieces of scikit-learn's two photographs, 0 to 255")
def photographs_255(task: Task) -> list[Arrays]:
    return _photographs(task, 1, 0)


@makes("text_lines", "lines of text in Pillow's font, -1 to 1")
def text_lines(task: Task) -> list[Arrays]:
    height, width = task.shape[2:]
    lines = (signals.text_image(task.source, height, width) / 127.5 - 1 for _ in range(task.count))
    return task.alone(each.transpose(2, 0, 1) for each in lines)


@makes("text_lines_0_1", "lines of text in Pillow's font, 0 to 1")
def text_lines_0_1(task: Task) -> list[Arrays]:
    lines = (signals.text_image(task.source, *task.shape[1:3]) for _ in range(task.count))
    return task.alone(each / 255 for each in lines)


@makes("text_lines_255", "lines of text in Pillow's font, blue first, 0 to 255")
def text_lines_255(task: Task) -> list[Arrays]:
    lines = (signals.text_image(task.source, *task.shape[2:]) for _ in range(task.count))
    return task.alone(each[..., ::-1].transpose(2, 0, 1) for each in lines)


MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
"""Mean and deviation of ImageNet's channels, as PaddleOCR uses them."""


def _page(task: Task) -> np.ndarray:
    page = signals.text_image(task.source, *task.shape[2:], lines=int(task.source.rng.integers(3, 9)))
    return (page / 255 - MEAN) / DEVIATION


@makes("text_pages", "several lines of text in Pillow's font, ImageNet's scaling")
def text_pages(task: Task) -> list[Arrays]:
    return task.alone(_page(task).transpose(2, 0, 1) for _ in range(task.count))


@makes("turned_pages", "the same, turned by 0, 90, 180 or 270 degrees")
def turned_pages(task: Task) -> list[Arrays]:
    turns = task.source.rng.integers(0, 4, task.count)
    return task.alone(np.rot90(_page(task), turn).transpose(2, 0, 1) for turn in turns)


@makes("captchas", "a line of text in Pillow's font, grey, 0 to 1")
def captchas(task: Task) -> list[Arrays]:
    height, width = task.shape[2:]
    return task.alone(
        signals.text_image(task.source, height, width).mean(-1) / 255 for _ in range(task.count)
    )


# --- others ----------------------------------------------------------------------------------------------------


@makes("files", "the first and the last KiB of files of the Python installation")
def files(task: Task) -> list[Arrays]:
    made = []
    for _ in range(task.count):
        data = np.frombuffer(signals.some_file(task.source).strip(), np.uint8).astype(np.int32)
        halves = np.full((2, 1024), 256)
        halves[0, : len(data[:1024])] = data[:1024]
        halves[1, 1024 - len(data[-1024:]) :] = data[-1024:]
        made.append(halves)
    return task.alone(made)


@makes("places_and_weeks", "latitude, longitude and week of the year")
def places_and_weeks(task: Task) -> list[Arrays]:
    draw = task.source.rng.uniform
    return task.alone([draw(-60, 70), draw(-180, 180), int(draw(1, 49))] for _ in range(task.count))


def make(name: str, task: Task) -> list[Arrays]:
    """`task.count` samples by the maker `name`; none of them shared with another `Source.half`."""
    made: list[Mapping[str, np.ndarray]] = MAKERS[name](task)
    return [{key: np.array(value, order="C") for key, value in each.items()} for each in made]
