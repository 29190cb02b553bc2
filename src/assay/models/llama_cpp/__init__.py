"""GGUF files through llama.cpp's own kernels: its server, by the package xllamacpp, started and ended by the run.

The class is `assay.models.llama_cpp.model:LlamaCpp`. It is not imported here, so that the server's process loads
llama.cpp and nothing else.
"""
