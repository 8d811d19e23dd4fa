"""Loads a model, tells of its inputs and outputs, predicts, and meets the usual errors."""

import numpy as np
import onnxruntime as ort

session = ort.InferenceSession("net.onnx", providers=ort.get_available_providers())
for each in (*session.get_inputs(), *session.get_outputs()):
    print(each.name, each.shape, each.type)
input_name = session.get_inputs()[0].name
label_name = session.get_outputs()[0].name

x = np.load("samples.npy")
scores = session.run([label_name], {input_name: x.astype(np.float32)})[0]
print(scores.dtype, scores.shape)
print(np.round(scores[0], 3).tolist())
print("classes", scores.argmax(axis=1).tolist())
print("the first alone", session.run(None, {input_name: x[:1]})[0].argmax())

for wrong in (
    {input_name: x.astype(np.float64)},
    {input_name: x[:, :5]},
    {input_name: x.ravel()},
    {"misspelt": x},
    {},
):
    try:
        session.run([label_name], wrong)
    except Exception:
        print("refused")
try:
    session.run(["misspelt"], {input_name: x})
except Exception:
    print("refused")
