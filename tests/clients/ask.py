"""Ask a gateway by a foreign client; runs in the environment of ``requirements.txt``, without keff.

``python ask.py CLIENT URL [MODEL]``: prints what the client got as JSON. Without a model the upstream is a
stub that knows tools and schemas; with one a real server, which is asked for a text and an object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

QUESTION = "How many is 6 times 7?"
KEY = "none"
SHORT, OBJECT = 16, 96
"""Tokens of a text and of an object asked of a real server: a processor draws about thirty a second."""


class Sum(BaseModel):
    """A sum."""

    total: int


class Solved(BaseModel):
    """A sum with how it was found, which each path writes anew."""

    reasoning: str
    total: int


class Brief(BaseModel):
    """A sum with a reasoning that a small model, held to the schema, brings to its end."""

    reasoning: str = Field(max_length=60)
    total: int


def tool() -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    return {"type": "function", "function": {"name": "report", "description": "x", "parameters": parameters}}


def litellm(url: str, model: str, whole: bool) -> dict[str, Any]:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm as client

    asked = {
        "model": f"openai/{model}",
        "api_base": url,
        "api_key": KEY,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": None if whole else SHORT,
    }
    reply = client.completion(**asked)
    got = {"text": reply.choices[0].message.content, "tokens": reply.usage.completion_tokens}
    parts = [chunk.choices[0].delta.content or "" for chunk in client.completion(**asked, stream=True)]
    got["stream"] = "".join(parts)
    if whole:
        # Its tools and its responses need the package mcp besides.
        parsed = client.completion(**asked, response_format=Sum).choices[0].message.content
        got["schema"] = json.loads(parsed)
        solved = client.completion(**asked, response_format=Solved).choices[0].message.content
        got["reasoned"] = {"schema": json.loads(solved)}
    else:
        brief = client.completion(**asked | {"max_tokens": OBJECT}, response_format=Brief)
        got["reasoned"] = {"schema": json.loads(brief.choices[0].message.content)}
    return got


def langchain(url: str, model: str, whole: bool) -> dict[str, Any]:
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(
        model=model, base_url=url, api_key=KEY, max_retries=0, max_tokens=None if whole else SHORT
    )
    reply = chat.invoke(QUESTION)
    got = {"text": reply.text, "tokens": reply.usage_metadata["output_tokens"]}
    got["stream"] = "".join(part.text for part in chat.stream(QUESTION))
    if whole:
        got["tool"] = chat.bind_tools([tool()]).invoke(QUESTION).tool_calls[0]["args"]
        got["schema"] = chat.with_structured_output(Sum).invoke(QUESTION).model_dump()
        got["reasoned"] = {
            # The mode json_mode says nothing of the schema: that is the prompt's to do.
            how: chat.with_structured_output(Solved, method=how)
            .invoke(f"{QUESTION} Reply as JSON with reasoning and total.")
            .model_dump()
            for how in ("json_schema", "function_calling", "json_mode")
        }
        own = ChatOpenAI(model=model, base_url=url, api_key=KEY, use_responses_api=True)
        got["responses"] = own.invoke(QUESTION).text
    else:
        longer = ChatOpenAI(model=model, base_url=url, api_key=KEY, max_retries=0, max_tokens=OBJECT)
        brief = longer.with_structured_output(Brief, method="json_schema").invoke(QUESTION)
        got["reasoned"] = {"schema": brief.model_dump()}
    return got


def pydantic_ai(url: str, model: str, whole: bool) -> dict[str, Any]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key=KEY)
    most = {} if whole else {"max_tokens": SHORT}
    reply = Agent(OpenAIChatModel(model, provider=provider), model_settings=most).run_sync(QUESTION)
    got: dict[str, Any] = {"text": reply.output}
    from pydantic_ai import NativeOutput, PromptedOutput, ToolOutput

    if whole:
        schema = Agent(OpenAIChatModel(model, provider=provider), output_type=Sum).run_sync(QUESTION)
        got["schema"] = schema.output.model_dump()
        got["reasoned"] = {
            how.__name__: Agent(OpenAIChatModel(model, provider=provider), output_type=how(Solved))
            .run_sync(QUESTION)
            .output.model_dump()
            for how in (ToolOutput, NativeOutput, PromptedOutput)
        }
        got["responses"] = Agent(OpenAIResponsesModel(model, provider=provider)).run_sync(QUESTION).output
    else:
        held = Agent(OpenAIChatModel(model, provider=provider), output_type=NativeOutput(Brief))
        brief = held.run_sync(QUESTION, model_settings={"max_tokens": OBJECT}).output
        got["reasoned"] = {"schema": brief.model_dump()}
    return got


def instructor(url: str, model: str, whole: bool) -> dict[str, Any]:
    import instructor as client
    from openai import OpenAI

    plain = OpenAI(base_url=url, api_key=KEY, max_retries=0)
    messages = [{"role": "user", "content": QUESTION}]
    got: dict[str, Any] = {}
    most = {} if whole else {"max_tokens": SHORT}
    reply = plain.chat.completions.create(model=model, messages=messages, **most)
    got["text"] = reply.choices[0].message.content
    if whole:
        for name, mode in (("tool", client.Mode.TOOLS), ("schema", client.Mode.JSON_SCHEMA)):
            made = client.from_openai(plain, mode=mode).chat.completions.create(
                model=model, messages=messages, response_model=Sum
            )
            got[name] = made.model_dump()
        got["reasoned"] = {
            mode.value: client.from_openai(plain, mode=mode)
            .chat.completions.create(model=model, messages=messages, response_model=Solved)
            .model_dump()
            for mode in (client.Mode.TOOLS, client.Mode.JSON_SCHEMA, client.Mode.JSON, client.Mode.MD_JSON)
        }
    else:
        held = client.from_openai(plain, mode=client.Mode.JSON_SCHEMA).chat.completions
        brief = held.create(model=model, messages=messages, response_model=Brief, max_tokens=OBJECT)
        got["reasoned"] = {"schema": brief.model_dump()}
    return got


def openai(url: str, model: str, whole: bool) -> dict[str, Any]:
    from openai import OpenAI

    plain = OpenAI(base_url=url, api_key=KEY, max_retries=0)
    messages = [{"role": "user", "content": QUESTION}]
    most = {} if whole else {"max_tokens": SHORT}
    reply = plain.chat.completions.create(model=model, messages=messages, **most)
    got: dict[str, Any] = {"text": reply.choices[0].message.content}
    if whole:
        chat = plain.chat.completions.parse(model=model, messages=messages, response_format=Solved)
        own = plain.responses.parse(model=model, input=QUESTION, text_format=Solved)
        got["reasoned"] = {
            "chat": chat.choices[0].message.parsed.model_dump(),
            "responses": own.output_parsed.model_dump(),
        }
    else:
        asked = {"model": model, "messages": messages, "max_tokens": OBJECT}
        brief = plain.chat.completions.parse(**asked, response_format=Brief).choices[0].message.parsed
        got["reasoned"] = {"schema": brief.model_dump()}
    return got


def dspy(url: str, model: str, whole: bool) -> dict[str, Any]:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import dspy as client

    # It asks only models that it knows for objects of a schema.
    named = model if whole else "gpt-4o-mini"
    most = {} if whole else {"max_tokens": OBJECT}
    lm = client.LM(f"openai/{named}", api_base=url, api_key=KEY, cache=False, num_retries=0, **most)

    class Short(client.Signature):
        """Answer the question."""

        question: str = client.InputField()
        # Of a field's own constraints its schema says nothing; those of a model are in it.
        solved: Brief = client.OutputField()

    ask = client.ChainOfThought("question -> total: int") if whole else client.Predict(Short)
    got: dict[str, Any] = {"reasoned": {}}
    for adapter in (client.JSONAdapter(), client.ChatAdapter()) if whole else (client.JSONAdapter(),):
        with client.context(lm=lm, adapter=adapter):
            found = ask(question=QUESTION)
        solved = {"reasoning": found.reasoning, "total": found.total} if whole else found.solved.model_dump()
        got["reasoned"][type(adapter).__name__] = solved
    return got


def llm(url: str, model: str, whole: bool) -> dict[str, Any]:
    most = [] if whole else ["-o", "max_tokens", str(SHORT)]
    with tempfile.TemporaryDirectory() as folder:
        entry = f"- model_id: kept\n  model_name: {model}\n  api_base: {url}\n"
        (Path(folder) / "extra-openai-models.yaml").write_text(entry)
        command = [str(Path(sys.executable).parent / "llm"), "-m", "kept", "--key", KEY, *most]
        environment = {**os.environ, "LLM_USER_PATH": folder}

        def run(*more: str) -> str:
            return subprocess.run(
                [*command, *more, QUESTION], env=environment, capture_output=True, text=True, check=True
            ).stdout.strip()

        return {"text": run("--no-stream"), "stream": run()}


CLIENTS = {each.__name__: each for each in (openai, litellm, langchain, pydantic_ai, instructor, dspy, llm)}

if __name__ == "__main__":
    name, url, *rest = sys.argv[1:]
    print(json.dumps(CLIENTS[name](url, rest[0] if rest else "stub", not rest)))
