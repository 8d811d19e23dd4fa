"""The networks of the tables, as .tosa files: MLPerf Tiny's TFLite files by Arm's converter, and MobileNetV2.

    git clone https://github.com/mlcommons/tiny
    python bench/mlperf_tiny.py tiny -o models
    tosaic bench models/*/model.tosa --config base --memory-bandwidth 16 --on emulator

It needs the extra `dev` (Arm's converter has no wheel for Python 3.14 yet). A file with another hash than the one
measured is refused. MobileNetV2 has random weights (`mobilenet_v2.py`); ResNet-50 takes minutes, by `resnet50.py`.
"""

import argparse
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from mobilenet_v2 import mobilenet_v2

import tosaic
from tosaic.compiler.ir import write_tosa
from tosaic.install import install_command

COMMIT = "1afd2c9820f795965a6134facd0b4dfae41ef23f"
"""The commit of the repository at which the hashes were taken."""
_TRAINED = "benchmark/training/{}/trained_models/{}.tflite"
_PASSES = (
    "builtin.module(tosa-attach-target{{specification_version=1.0 profiles=pro_int extensions=int16,doubleround "
    "level=8k}},tosa-validate{{strict-op-spec-alignment=true}},tosa-serialize{{tosa-flatbuffer-filename={}}})"
)
"""Without its target the file would say 1.1.0 draft."""


@dataclasses.dataclass(frozen=True)
class Network:
    """A TFLite file of the repository, and the .tosa file that is made of it."""

    task: str
    file: str
    input_name: str
    shape: tuple[int, ...]
    """The input's, which binds a dynamic batch to 1."""
    tflite_sha256: str
    tosa_sha256: str

    @property
    def path(self) -> str:
        return _TRAINED.format(self.task, self.file)


NETWORKS = {
    "ic_resnet8": Network(
        *("image_classification", "pretrainedResnet_quant", "input_1_int8", (1, 32, 32, 3)),
        "3c002613d1b2475eb51dd78dfb85a546c8ae658dee71cf6ade43b022fe205415",
        "f3397f63c73380ee566296d91e01db8c689ad2cda9181c72347f903d3fa0fe2d",
    ),
    "vww_mobilenet": Network(
        *("visual_wake_words", "vww_96_int8", "input_1_int8", (1, 96, 96, 3)),
        "597a384c8c2c8a1276f04702f25013b7838f2f814f1ca7c174d295b73e3d6b7b",
        "aec763d7c25c9d926b9e63a330ca98e4a3f995875d1d6cd237231c5abb3928f7",
    ),
    "kws_dscnn": Network(
        *("keyword_spotting", "kws_ref_model", "input_1", (1, 49, 10, 1)),
        "aeea436800704fce17b17292e4412630ad856e9d777c044c64ef748a880bd0ae",
        "dfbdfd8a89772d51b032a2b973eb5f3eaac934597631e22aab62438eec865f70",
    ),
    "ad_autoencoder": Network(
        *("anomaly_detection", "ad01_int8", "input_1", (1, 640)),
        "87cf24194ef93d1d9b11a591d805526b98008e351655d29883c825c9c106ba24",
        "b621418cff053360ce661b6786987466a7a17c75fac0f183fd011e134b2b50eb",
    ),
    "sww_dscnn1d": Network(
        *("streaming_wakeword", "str_ww_ref_model", "serving_default_input_1:0", (1, 30, 1, 40)),
        "3af8550895ba7d5c584277102b5075c52dcfa63ba9d2b2240f37c4e6abd5dd2b",
        "557c752865b4af9cf5479abad106881f43cde834586b472a7b3b151e4c85e6d0",
    ),
    "ic_resnet_large": Network(
        *("image_classification", "pretrainedResnet_large_int8", "serving_default_input_5:0", (1, 32, 32, 3)),
        "dc27dcd823f5665533352f7da516b0c9bc6f089914b8283782e55961b3423fcf",
        "7968000084d02f7d4d66ad7f1ac246e43203c585f1b30386542a6f40ba572564",
    ),
}


def convert(source: pathlib.Path, network: Network, target: pathlib.Path) -> None:
    """Writes the .tosa file of a TFLite file; both are those that the hashes name."""
    _expect(source, network.tflite_sha256, f"check out commit {COMMIT}")
    try:
        import tosa_converter_for_tflite as converter  # Of the extra `dev`.
    except ImportError:
        wanted = f"{install_command('dev')} on Python 3.11 to 3.13"
        raise tosaic.InputError(f"Arm's converter is missing: {wanted}") from None
    beside = pathlib.Path(sys.executable).parent
    serializer = shutil.which("tosa-opt", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if serializer is None:
        raise tosaic.InputError(f"the program tosa-opt is missing: {install_command('dev')}")
    with tempfile.TemporaryDirectory() as folder:
        mlir, made = pathlib.Path(folder, "model.mlirbc"), pathlib.Path(folder, "model.tosa")
        bytecode = converter.TosaConverterOutputFormat.Bytecode
        silent = converter.TosaConverterDebugInfo.Disabled
        shapes = {network.input_name: list(network.shape)}
        converter._tflite_flatbuffer_to_tosa_mlir(str(source), str(mlir), bytecode, silent, shapes)
        passes = f"--pass-pipeline={_PASSES.format(made)}"
        subprocess.run([serializer, str(mlir), passes, "-o", "/dev/null"], check=True)
        _expect(made, network.tosa_sha256, "use tosa-converter-for-tflite 2026.2.0 and tosa-tools 2026.8.0")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, target)


def _expect(path: pathlib.Path, sha256: str, way_out: str) -> None:
    if not path.is_file():
        clone = "give the folder of `git clone https://github.com/mlcommons/tiny`"
        raise tosaic.InputError(f"{path} is missing: {clone}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise tosaic.InputError(f"{path} has SHA-256 {found[:16]}..., not {sha256[:16]}...: {way_out}")


def main() -> int:
    """Writes FOLDER/NAME/model.tosa for each network; 1 if a file is not the one that was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="a clone of github.com/mlcommons/tiny")
    parser.add_argument("-o", dest="output", type=pathlib.Path, default=pathlib.Path("models"))
    options = parser.parse_args()
    try:
        for name, network in NETWORKS.items():
            target = options.output / name / "model.tosa"
            convert(options.folder / network.path, network, target)
            print(f"{target}: of {network.path}")
    except tosaic.Error as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    target = options.output / "mbv2_100_224" / "model.tosa"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_tosa(mobilenet_v2(), target)
    print(f"{target}: random weights, in the operators and shapes of the network measured")
    return 0


if __name__ == "__main__":
    sys.exit(main())
