"""Programs of torch.export.save on the command line, and in README's script."""

import pathlib
import re
import sys

import numpy as np
import pytest
import torch
from torch_modules import Classifier, classifier

from tosaic import nnr
from tosaic.cli import app
from tosaic.nnr.tensor_files import read_state_dict

README = pathlib.Path(__file__).parents[2] / "README.md"


@pytest.fixture
def tosaic(tmp_path, monkeypatch, capsys):
    """A function tosaic(*arguments) -> (exit code, stdout, stderr), in a folder with net.pt2, x.npy and calib.npz."""
    monkeypatch.chdir(tmp_path)
    module, image, calibration = classifier()
    torch.export.save(torch.export.export(module.eval(), (image,)), "net.pt2")
    np.save("x.npy", image.numpy())
    np.savez("calib.npz", image=calibration.numpy())

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["tosaic", *arguments])
        with pytest.raises(SystemExit) as ended:
            app.main()
        output = capsys.readouterr()
        return ended.value.code, output.out, output.err

    call.wanted = module(image)["logits"].detach().numpy()
    return call


def test_float_program(tosaic):
    code, said, _ = tosaic("check", "net.pt2")
    assert code == 0  # once it is quantized
    assert "operators in the source" in said
    code, said, error = tosaic("run", "net.pt2", "--on", "golden", "-i", "image=x.npy", "-o", "out")
    assert (code, error) == (0, "")
    assert np.allclose(np.load("out/logits.npy"), tosaic.wanted, atol=1e-5)


def test_quantized_and_compiled(tosaic):
    code, said, error = tosaic("quantize", "net.pt2", "-c", "calib.npz", "-o", "net.tosa")
    assert code == 0, error
    assert "output 'logits' int8[1, 4]: real =" in said
    code, _, error = tosaic("compile", "net.tosa", "-o", "net.tsc", "--config", "nano")
    assert code == 0, error


def test_converted_program_runs_in_integers(tosaic):
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    module, image, calibration = classifier()
    quantizer = TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT"))
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(
        torch.export.export(module.eval(), (image,)).module(check_guards=False), quantizer
    )
    for batch in calibration.split(1):
        prepared(batch)
    torch.export.save(torch.export.export(convert_pt2e(prepared), (image,)), "int8.pt2")
    arguments = ("run", "int8.pt2", "--on", "emulator", "--random", "1", "--check")
    code, said, error = tosaic(*arguments)
    assert (code, error) == (0, "")
    assert "int8[1, 4]" in said


def test_pt2_is_not_what_it_says(tosaic):
    pathlib.Path("bad.pt2").write_bytes(b"PK\x03\x04 no archive")
    code, _, error = tosaic("run", "bad.pt2", "--random", "1")
    assert code == 1
    assert "bad.pt2: is not a program that torch.export.save wrote" in error


def test_readme_from_module_to_cycles_and_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = next(
        part for part in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "from_torch" in part
    )
    assert len([line for line in script.splitlines() if line]) <= 5
    exec(compile(script, "README.md", "exec"), {})
    assert re.search(r"\d+ cycles", capsys.readouterr().out)
    assert "<html" in pathlib.Path("report.html").read_text()


def test_the_how_to_from_its_script_to_the_evaluation(tosaic, capsys):
    page = README.parent / "docs/howto_pytorch.md"
    names: dict[str, object] = {}
    for script in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        exec(compile(script, page.name, "exec"), names)
    samples = np.random.default_rng(0).random((20, 1, 8, 8), np.float32)
    np.savez("calib.npz", input=samples)
    np.savez("test.npz", input=samples, labels=np.zeros(20, np.int64))
    commands = [line.split()[1:] for line in page.read_text().splitlines() if line.startswith("tosaic ")]
    assert [words[0] for words in commands] == ["quantize", "evaluate"]
    for words in commands:
        code, _, error = tosaic(*words)
        assert code == 0, error
    assert pathlib.Path("quantized.html").exists()


def test_weights_of_a_state_dict_in_an_nnr_bitstream(tmp_path) -> None:
    """.pt files of tensors are read without running code; others are refused with the way out."""
    module = Classifier()
    path = tmp_path / "w.pt"
    expected = {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}
    for held in (module.state_dict(), {"epoch": 3, "state_dict": module.state_dict()}):
        torch.save(held, path)
        found = nnr.decode(nnr.encode(read_state_dict(path)))
        assert found.keys() == expected.keys()
        assert all(np.array_equal(found[name], values) for name, values in expected.items())
    torch.save({"half": torch.tensor([1.0, -2.5], dtype=torch.bfloat16)}, path)
    assert read_state_dict(path)["half"].tolist() == [1.0, -2.5]
    for held, message in (
        (module, "holds Python objects, which may run code; write it as torch.save"),
        ({"epoch": 3}, "holds no state_dict, a dictionary of tensors"),
        (torch.ones(2), "holds no state_dict"),
        ({"a": torch.ones(2).to_sparse()}, "tensor 'a' of torch.float32 has no NumPy form"),
    ):
        torch.save(held, path)
        with pytest.raises(nnr.NnrError, match=message):
            read_state_dict(path)
    path.write_bytes(b"abc")
    with pytest.raises(nnr.NnrError, match=r"w\.pt"):
        read_state_dict(path)
