"""A model's bytes, and a data set in batches: lists, arrays, one sample at a time."""

import numpy as np
import onnxruntime as ort

with open("net.onnx", "rb") as file:
    session = ort.InferenceSession(file.read(), providers=ort.get_available_providers())
samples, labels = np.load("samples.npy"), np.load("labels.npy")
name, output = session.get_inputs()[0].name, session.get_outputs()[0].name

whole = session.run([output], {name: samples})[0]
right = 0
for first in range(0, len(samples), 4):
    batch = samples[first : first + 4]
    scores = session.run([output], {name: batch})[0]
    right += int((scores.argmax(axis=1) == labels[first : first + 4]).sum())
    assert np.array_equal(scores, whole[first : first + 4])
print(f"{right} of {len(samples)}")
as_list = session.run(None, {name: samples[:1].tolist()})[0]
print("a list", bool(np.array_equal(as_list, whole[:1])))
