"""Local models through vLLM: continuous batching, its own prefix cache, tensor and data parallel.

The class is `assay.models.vllm.model:VLLM`. It is not imported here, so that the worker processes of data parallel runs
load vLLM and nothing else.
"""
