"""A model in this process through vLLM (extra ``vllm``), for machines with an accelerator.

The n paths of a request share the reading of the prompt, and prompts that begin alike share it too. Path i
carries seed + i. Many requests may be in flight: vLLM batches them itself. To run a server instead:

    vllm serve MODEL --enable-prefix-caching --port 8000
    keff sample TASK --engine openai --base-url http://HOST:8000/v1 --run DIR
"""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
