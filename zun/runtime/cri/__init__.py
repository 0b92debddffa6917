"""Capsules on containerd, over CRI version 1: ``zun.runtime.pods.Pods``. Runs in zun-compute, beside the engine."""

import os

# The programs we start are an exec at once; without this gRPC halts its threads for each, or says that it cannot.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
