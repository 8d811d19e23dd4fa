"""Values and bindings instead of arrays; a run in the background."""

import threading

import numpy as np
import onnxruntime as ort

session = ort.InferenceSession("net.onnx", providers=ort.get_available_providers())
x = np.load("samples.npy")[:2]
value = ort.OrtValue.ortvalue_from_numpy(x)
print(value.device_name(), value.data_type(), value.shape(), value.is_tensor(), value.has_value())

binding = session.io_binding()
binding.bind_cpu_input("x", x)
binding.bind_output("y")
session.run_with_iobinding(binding)
scores = binding.copy_outputs_to_cpu()[0]
print(scores.argmax(axis=1).tolist())

result = ort.OrtValue.ortvalue_from_shape_and_type([2, 10], np.float32)
binding = session.io_binding()
binding.bind_ortvalue_input("x", value)
binding.bind_ortvalue_output("y", result)
session.run_with_iobinding(binding)
print(np.array_equal(result.numpy(), scores), binding.get_outputs()[0].shape())
print(np.array_equal(session.run_with_ort_values(["y"], {"x": value})[0].numpy(), scores))

done = threading.Event()
found = []


def tell(results, data, error):
    found.append((np.array_equal(results[0], scores), data, error))
    done.set()


session.run_async(["y"], {"x": x}, tell, "my data")
done.wait(30)
print(found)
