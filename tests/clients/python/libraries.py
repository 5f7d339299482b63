# SPDX-License-Identifier: Apache-2.0
"""libraries.py PROGRAM: Python client libraries of LLM APIs against a server with the demo model."""
import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path

from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[3]
IMAGE = (ROOT / "examples" / "word-2.jpg").read_bytes()
BASE64 = base64.b64encode(IMAGE).decode()
DATA = f"data:image/jpeg;base64,{BASE64}"
EXPECTED = json.loads((ROOT / "examples" / "expected.json").read_text())["word-2.jpg"]
ASK = "Describe this image."
MODEL = "demo"
URL = OLLAMA = ""


class Sign(BaseModel):
    word: str
    count: int


def look(place: str) -> str:
    """Looks at a place."""
    return place


LOOK = {"type": "object", "properties": {"place": {"type": "string", "maxLength": 8}}, "required": ["place"]}
tests = []


def test(function):
    tests.append(function)
    return function


# ---- the APIs' own libraries ----

OPENAI_PARTS = [{"type": "image_url", "image_url": {"url": DATA}}, {"type": "text", "text": ASK}]


def openai_client(path="/v1"):
    from openai import OpenAI
    return OpenAI(base_url=URL + path, api_key="none")


@test
def openai_chat_with_and_without_v1():
    for path in ("/v1", ""):
        reply = openai_client(path).chat.completions.create(
            model=MODEL, temperature=0, messages=[{"role": "user", "content": OPENAI_PARTS}])
        assert reply.choices[0].message.content == EXPECTED
        assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


@test
def openai_chat_parsed_by_pydantic():
    reply = openai_client().chat.completions.parse(
        model=MODEL, temperature=0, response_format=Sign, messages=[{"role": "user", "content": OPENAI_PARTS}])
    assert isinstance(reply.choices[0].message.parsed, Sign)


@test
def openai_responses_whole_streamed_parsed():
    client = openai_client()
    items = [{"role": "user", "content": [{"type": "input_image", "image_url": DATA}, {"type": "input_text", "text": ASK}]}]
    reply = client.responses.create(model=MODEL, temperature=0, input=items)
    assert reply.output_text == EXPECTED
    with client.responses.stream(model=MODEL, temperature=0, input=items) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert text == stream.get_final_response().output_text == EXPECTED
    parsed = client.responses.parse(model=MODEL, temperature=0, input=items, text_format=Sign)
    assert isinstance(parsed.output_parsed, Sign)
    following = client.responses.create(model=MODEL, input="And now?", previous_response_id=reply.id)
    assert following.usage.input_tokens > reply.usage.input_tokens
    client.responses.delete(reply.id)


@test
def openai_async_stream():
    from openai import AsyncOpenAI

    async def ask():
        client = AsyncOpenAI(base_url=URL + "/v1", api_key="none")
        pieces = await client.chat.completions.create(
            model=MODEL, temperature=0, stream=True, messages=[{"role": "user", "content": OPENAI_PARTS}])
        return "".join([piece.choices[0].delta.content or "" async for piece in pieces if piece.choices])
    assert asyncio.run(ask()) == EXPECTED


@test
def anthropic_whole_streamed_counted_tools():
    import anthropic
    client = anthropic.Anthropic(base_url=URL, api_key="none")
    source = {"type": "base64", "media_type": "image/jpeg", "data": BASE64}
    question = {"model": MODEL, "messages": [{"role": "user", "content": [
        {"type": "image", "source": source}, {"type": "text", "text": ASK}]}]}
    greedy = {"max_tokens": 60, "extra_body": {"temperature": 0}}
    reply = client.messages.create(**question, **greedy)
    assert reply.content[0].text == EXPECTED and reply.stop_reason == "end_turn"
    with client.messages.stream(**question, **greedy) as stream:
        assert "".join(stream.text_stream) == EXPECTED
        assert stream.get_final_message().usage.output_tokens == reply.usage.output_tokens
    counted = client.messages.count_tokens(**question).input_tokens
    assert counted == reply.usage.input_tokens + reply.usage.cache_read_input_tokens
    called = client.messages.create(**question, max_tokens=300, tool_choice={"type": "tool", "name": "look"},
                                    tools=[{"name": "look", "input_schema": LOOK}])
    assert called.content[-1].type == "tool_use" and "place" in called.content[-1].input
    try:
        client.messages.create(**{**question, "model": "claude-nobody"}, max_tokens=1)
        raise AssertionError("an unknown model was accepted")
    except anthropic.NotFoundError:
        pass


@test
def ollama_whole_streamed_format_tools():
    import ollama
    client = ollama.Client(host=OLLAMA)
    question = {"model": MODEL, "options": {"temperature": 0}}
    messages = [{"role": "user", "content": ASK, "images": [IMAGE]}]
    assert client.chat(**question, messages=messages).message.content == EXPECTED
    assert "".join(piece.message.content for piece in client.chat(**question, messages=messages, stream=True)) == EXPECTED
    assert client.generate(**question, prompt=ASK, images=[IMAGE]).response == EXPECTED
    assert Sign.model_validate_json(client.chat(**question, messages=messages, format=Sign.model_json_schema()).message.content)
    client.chat(**question, messages=messages, tools=[look])
    assert client.list().models[0].model.startswith(MODEL) and client.show(MODEL).capabilities
    assert client.pull(MODEL).status == "success"


# ---- LangChain ----

def check_langchain(model, image):
    from langchain_core.messages import HumanMessage
    question = [HumanMessage(content=[image, {"type": "text", "text": ASK}])]
    assert model.invoke(question).text == EXPECTED
    assert "".join(piece.text for piece in model.stream(question)) == EXPECTED
    assert isinstance(model.with_structured_output(Sign, method="json_schema").invoke(question), Sign)
    model.bind_tools([look]).invoke(question)


def langchain_part():
    return {"type": "image_url", "image_url": {"url": DATA}}


@test
def langchain_openai_chat_and_responses():
    from langchain_openai import ChatOpenAI
    for responses in (False, True):
        check_langchain(ChatOpenAI(model=MODEL, base_url=URL + "/v1", api_key="none", temperature=0,
                                   use_responses_api=responses), langchain_part())


@test
def langchain_ollama():
    from langchain_ollama import ChatOllama
    from langchain_core.messages import HumanMessage
    model = ChatOllama(model=MODEL, base_url=OLLAMA, temperature=0)
    question = [HumanMessage(content=[langchain_part(), {"type": "text", "text": ASK}])]
    said = model.invoke(question).text  # the answer begins with a line break
    assert "FRAGILE" in said
    assert "".join(piece.text for piece in model.stream(question)) == said
    assert isinstance(model.with_structured_output(Sign, method="json_schema").invoke(question), Sign)
    model.bind_tools([look]).invoke(question)


@test
def langchain_anthropic():
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import HumanMessage
    model = ChatAnthropic(model=MODEL, base_url=URL, api_key="none", max_tokens=60)
    question = [HumanMessage(content=[{"type": "image", "base64": BASE64, "mime_type": "image/jpeg"}, {"type": "text", "text": ASK}])]
    assert "FRAGILE" in model.invoke(question).text
    assert "".join(piece.text for piece in model.stream(question))
    model.bind_tools([look], tool_choice="look").invoke(question)


# ---- LlamaIndex, as Paperless-ngx uses it ----

@test
def llama_index_ollama():
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.ollama import Ollama
    model = Ollama(model=MODEL, base_url=OLLAMA, context_window=4096, request_timeout=60, temperature=0, thinking=False)
    assert model.chat([ChatMessage(role="user", content=ASK)]).message.content is not None
    assert "".join(piece.delta or "" for piece in model.stream_chat([ChatMessage(role="user", content=ASK)])) is not None
    assert isinstance(model.as_structured_llm(Sign).complete(ASK).raw, Sign)


@test
def llama_index_openai_like():
    from llama_index.core.llms import ChatMessage
    from llama_index.core.program.function_program import get_function_tool
    from llama_index.llms.openai_like import OpenAILike
    model = OpenAILike(model=MODEL, api_base=URL + "/v1", api_key="none", is_chat_model=True,
                       is_function_calling_model=True, temperature=0, max_tokens=100)
    assert model.chat([ChatMessage(role="user", content=ASK)]).message.content is not None
    called = model.chat_with_tools([get_function_tool(Sign)], user_msg=ASK, tool_required=True, allow_parallel_tool_calls=False)
    assert Sign(**model.get_tool_calls_from_response(called)[0].tool_kwargs)


# ---- other libraries ----

@test
def pydantic_ai_chat_and_responses():
    from pydantic_ai import Agent, BinaryContent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    provider = OpenAIProvider(base_url=URL + "/v1", api_key="none")
    image = BinaryContent(data=IMAGE, media_type="image/jpeg")
    for model in (OpenAIChatModel(MODEL, provider=provider), OpenAIResponsesModel(MODEL, provider=provider)):
        settings = {"temperature": 0}
        assert Agent(model, model_settings=settings).run_sync([image, ASK]).output == EXPECTED
        assert isinstance(Agent(model, output_type=NativeOutput(Sign), model_settings=settings).run_sync([image, ASK]).output, Sign)
        assert isinstance(Agent(model, output_type=Sign, model_settings=settings).run_sync([image, ASK]).output, Sign)


@test
def instructor_tools_and_schema():
    import instructor
    messages = [{"role": "user", "content": OPENAI_PARTS}]
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(openai_client(), mode=mode)
        assert isinstance(client.chat.completions.create(model=MODEL, temperature=0, response_model=Sign, messages=messages), Sign)


@test
def litellm_by_four_routes():
    import litellm
    litellm.suppress_debug_info = True
    messages = [{"role": "user", "content": OPENAI_PARTS}]
    for name, base in (("openai/", URL + "/v1"), ("ollama_chat/", OLLAMA), ("ollama/", OLLAMA), ("anthropic/", URL)):
        reply = litellm.completion(model=name + MODEL, api_base=base, api_key="none", messages=messages, temperature=0, max_tokens=60)
        assert "FRAGILE" in reply.choices[0].message.content, name
        assert reply.usage.completion_tokens > 3, name
    assert "FRAGILE" in str(litellm.responses(model="openai/" + MODEL, api_base=URL + "/v1", api_key="none", temperature=0, input=[
        {"role": "user", "content": [{"type": "input_image", "image_url": DATA}, {"type": "input_text", "text": ASK}]}]))


# ---- the run ----

def start(program):
    global URL, OLLAMA
    server = subprocess.Popen([program, "serve", "--model", "models/demo", "--served-model-name", MODEL, "--port", "0", "--ollama", "0"],
                              cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log, end = "", time.monotonic() + 60
    for line in server.stdout:
        log += line
        if "ready on" in line or time.monotonic() > end:
            break
    URL = re.search(r"ready on (http://\S+)", log).group(1)
    OLLAMA = re.search(r"clients find it at (http://\S+)", log).group(1)
    return server


def main():
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # LiteLLM downloads nothing
    server = start(os.path.realpath(sys.argv[1]))
    failed = 0
    only = sys.argv[2:]
    chosen = [one for one in tests if not only or one.__name__ in only]
    for one in chosen:
        try:
            one()
            print("ok", one.__name__, flush=True)
        except Exception:  # shows the error and continues with the others
            failed += 1
            print("FAILED", one.__name__, traceback.format_exc(limit=-3), flush=True)
    server.terminate()
    server.wait(60)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
