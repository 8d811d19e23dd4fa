"""Session options, run options, and a profile."""

import json
import os

import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(3)
options = ort.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 3
options.enable_mem_pattern = False
options.enable_profiling = True
options.profile_file_prefix = "profile"
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
options.add_free_dimension_override_by_name("batch", 1)
print(options.get_session_config_entry("session.intra_op.allow_spinning"), options.intra_op_num_threads)

session = ort.InferenceSession("net.onnx", options, providers=ort.get_available_providers())
session.disable_fallback()
print(session.get_inputs()[0].shape)
run_options = ort.RunOptions()
run_options.log_severity_level = 3
run_options.logid = "run 1"
x = np.load("samples.npy")[:1]
(scores,) = session.run(None, {"x": x}, run_options)
print("class", scores.argmax())

profile = session.end_profiling()
with open(profile) as file:
    events = json.load(file)
print(os.path.basename(profile).startswith("profile_"), len(events) > 0)

run_options.terminate = True
try:
    session.run(None, {"x": x}, run_options)
except Exception:
    print("terminated")
try:
    options.intra_op_threads = 2
except AttributeError:
    print("there is no such option")
