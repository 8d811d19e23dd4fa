"""What a model says of itself."""

import onnxruntime as ort

session = ort.InferenceSession("net.onnx", providers=ort.get_available_providers())
meta = session.get_modelmeta()
print("custom_metadata_map =", meta.custom_metadata_map)
print("description =", meta.description)
print("domain =", meta.domain)
print("graph_name =", meta.graph_name)
print("graph_description =", meta.graph_description)
print("producer_name =", meta.producer_name)
print("version =", meta.version)
print(len(session.get_inputs()), len(session.get_outputs()), len(session.get_overridable_initializers()))
