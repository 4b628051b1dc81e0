"""Tries a server with the clients of OpenAI and Anthropic for Python, and OpenAI's Agents SDK: check.py BASE_URL KEY"""

import asyncio
import json
import random
import sys
import time
import urllib.request

import agents
import anthropic
import jsonschema
import openai
from pydantic import BaseModel, Field

URL, KEY = sys.argv[1:]
client = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0)
MODEL = client.models.list().data[0].id
claude = anthropic.Anthropic(base_url=URL.removesuffix("/v1"), api_key=KEY, max_retries=0)
HI = [{"role": "user", "content": "hi"}]
WEATHER = {"type": "function", "function": {"name": "weather", "strict": True, "parameters": {
    "type": "object", "properties": {"place": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["place", "days"], "additionalProperties": False}}}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}


def health():
    with urllib.request.urlopen(URL.removesuffix("/v1") + "/health") as answer:
        return json.load(answer)


def models():
    assert client.models.retrieve(MODEL).id == MODEL
    try:
        client.models.retrieve("none")
        raise AssertionError("a model that there is not")
    except openai.NotFoundError as e:
        assert e.code == "model_not_found", e


def chat():
    a = client.chat.completions.create(model=MODEL, messages=HI, max_completion_tokens=8, seed=1, n=2)
    assert [c.index for c in a.choices] == [0, 1]
    assert a.usage.completion_tokens <= 16 and a.usage.total_tokens == a.usage.prompt_tokens + a.usage.completion_tokens
    assert a.choices[0].message.content and a.choices[0].finish_reason in ("length", "stop")
    b = client.chat.completions.create(model=MODEL, messages=HI, max_completion_tokens=8, seed=1, n=2)
    assert [c.message.content for c in a.choices] == [c.message.content for c in b.choices]
    assert b.usage.prompt_tokens_details.cached_tokens > 0
    parts = [{"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}]
    c = client.chat.completions.create(model=MODEL, messages=parts, max_tokens=8, seed=1)
    assert c.choices[0].message.content == a.choices[0].message.content
    assert c.model_extra["pilotfish"]["seed"] == 1


def streaming():
    whole = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=20, seed=2)
    text, usage, chunks = "", None, 0
    for chunk in client.chat.completions.create(model=MODEL, messages=HI, max_tokens=20, seed=2, stream=True,
                                                stream_options={"include_usage": True}):
        chunks += 1
        usage = chunk.usage or usage
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
    assert text == whole.choices[0].message.content, (text, whole)
    assert usage.completion_tokens == whole.usage.completion_tokens and chunks > 3
    origins = []
    for chunk in client.chat.completions.create(model=MODEL, messages=HI, max_tokens=5, seed=2, stream=True,
                                                extra_body={"pilotfish": {"provenance": True}}):
        own = chunk.choices[0].model_extra.get("pilotfish")
        origins += [t["origin"] for t in own["tokens"]] if own else []
    assert origins == ["edge"] * len(origins) and origins, origins
    with client.chat.completions.stream(model=MODEL, messages=HI, max_tokens=5, seed=2) as stream:
        kinds = {event.type for event in stream}
        assert "content.delta" in kinds and stream.current_completion_snapshot.choices[0].message.content


def settings():
    a = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=6, temperature=0, logprobs=True, top_logprobs=3)
    for one in a.choices[0].logprobs.content:
        assert len(one.top_logprobs) == 3 and one.logprob <= 0 and bytes(one.bytes) is not None
    b = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=6, temperature=0, logit_bias={"65": 100}, stop=["AAA"])
    assert b.choices[0].message.content == "" and b.choices[0].finish_reason == "stop"
    c = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=6, presence_penalty=1, frequency_penalty=1, top_p=0.9, user="u")
    assert c.choices
    t = client.completions.create(model=MODEL, prompt=["a", "b"], max_tokens=4, logprobs=2, temperature=0)
    assert len(t.choices) == 2 and len(t.choices[0].logprobs.tokens) == 4 and t.choices[0].logprobs.text_offset[0] == 0
    s = "".join(c.choices[0].text for c in client.completions.create(model=MODEL, prompt="a", max_tokens=4, temperature=0, stream=True))
    assert s == t.choices[0].text


def tools():
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        for seed in range(4):
            a = client.chat.completions.create(model=MODEL, messages=HI, tools=[WEATHER, CLOCK], tool_choice=choice, seed=seed)
            assert a.choices[0].finish_reason == "tool_calls", a
            call = a.choices[0].message.tool_calls[0]
            assert call.function.name in ("weather", "clock") and (choice == "required" or call.function.name == "weather")
            tool = WEATHER if call.function.name == "weather" else CLOCK
            jsonschema.validate(json.loads(call.function.arguments), tool["function"]["parameters"])
            text = ""
            for chunk in client.chat.completions.create(model=MODEL, messages=HI, tools=[WEATHER, CLOCK], tool_choice=choice, seed=seed,
                                                        stream=True):
                for piece in chunk.choices[0].delta.tool_calls or []:
                    text += piece.function.arguments or ""
            assert text == call.function.arguments
            more = HI + [a.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
            b = client.chat.completions.create(model=MODEL, messages=more, tools=[WEATHER, CLOCK], max_tokens=4)
            assert b.usage.prompt_tokens > a.usage.prompt_tokens
    client.chat.completions.create(model=MODEL, messages=HI, tools=[WEATHER], max_tokens=8, parallel_tool_calls=False)


class Step(BaseModel):
    number: int
    done: bool


class Plan(BaseModel):  # bounded, as random weights need not end a text
    title: str = Field(max_length=8)
    steps: list[Step] = Field(max_length=3)


def schemas():
    wanted = {"type": "json_schema", "json_schema": {"name": "p", "strict": True, "schema": {
        "type": "object", "properties": {"a": {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 1, "maxItems": 3}},
        "required": ["a"], "additionalProperties": False}}}
    for seed in range(5):
        a = client.chat.completions.create(model=MODEL, messages=HI, response_format=wanted, seed=seed)
        assert a.choices[0].finish_reason == "stop"
        jsonschema.validate(json.loads(a.choices[0].message.content), wanted["json_schema"]["schema"])
    for seed in range(6):
        plan = client.chat.completions.parse(model=MODEL, messages=HI, response_format=Plan, seed=seed, max_tokens=1500)
        assert isinstance(plan.choices[0].message.parsed, Plan)
    a = client.chat.completions.create(model=MODEL, messages=HI, response_format={"type": "json_object"}, max_tokens=500, seed=1)
    if a.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(a.choices[0].message.content), dict)


def drawn(r, depth):
    kind = r.choice(["object", "array", "string", "integer", "boolean", "null", "enum", "anyOf", "const"] if depth else
                    ["string", "integer", "boolean", "null", "enum", "const"])
    if kind == "object":
        names = r.sample(["a", "b c", "ü", "d", "e"], r.randint(1, 3))
        return {"type": "object", "properties": {n: drawn(r, depth - 1) for n in names},
                "required": r.sample(names, r.randint(0, len(names))), "additionalProperties": False}
    if kind == "array":
        least = r.randint(0, 2)
        return {"type": "array", "items": drawn(r, depth - 1), "minItems": least, "maxItems": least + r.randint(0, 2)}
    if kind == "string":
        return {"type": "string", "maxLength": r.randint(0, 6)}
    if kind == "integer":
        least = r.randint(-50, 50)
        return {"type": "integer", "minimum": least, "maximum": least + r.randint(0, 2000)}
    if kind == "enum":
        return {"enum": r.sample(["x", 7, None, True, "é\n", [1], {"k": 2}], r.randint(1, 4))}
    if kind == "anyOf":
        return {"anyOf": [drawn(r, depth - 1) for _ in range(r.randint(1, 3))]}
    if kind == "const":
        return {"const": r.choice(["x", 3, None, {"a": [1, "b"]}])}
    return {"type": kind}


def random_schemas():
    r = random.Random(1)
    for i in range(200):
        schema = drawn(r, 3)
        a = client.chat.completions.create(model=MODEL, messages=HI, seed=i, response_format={
            "type": "json_schema", "json_schema": {"name": "r", "schema": schema}})
        assert a.choices[0].finish_reason == "stop", (schema, a)
        jsonschema.validate(json.loads(a.choices[0].message.content), schema)


def errors():
    a = client.chat.completions.with_raw_response.create(model=MODEL, messages=HI, max_tokens=1, extra_body={"nonsense": 1})
    assert a.headers["x-pilotfish-ignored"] == "nonsense"
    for wrong, param, kind in (
        ({"temperature": -1}, "temperature", openai.BadRequestError),
        ({"extra_body": {"grammar": "root ::= x"}}, "grammar", openai.BadRequestError),
        ({"model": "none"}, "model", openai.NotFoundError),
        ({"messages": []}, "messages", openai.BadRequestError),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}}, "response_format",
         openai.BadRequestError),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]}]},
         "messages[0].content[0].type", openai.BadRequestError),
    ):
        try:
            client.chat.completions.create(**{"model": MODEL, "messages": HI, **wrong})
            raise AssertionError(wrong)
        except kind as e:
            assert e.param == param and e.type == "invalid_request_error" and e.code, e.body
    try:
        client.embeddings.create(model=MODEL, input="x")
        raise AssertionError("embeddings")
    except openai.NotFoundError as e:
        assert "embeddings" in e.message
    try:
        openai.OpenAI(base_url=URL, api_key="wrong", max_retries=0).models.list()
        raise AssertionError("a wrong key")
    except openai.AuthenticationError as e:
        assert e.code == "invalid_api_key"


def responses():
    flat = {"type": "function", **WEATHER["function"]}
    a = client.responses.create(model=MODEL, input="hi", instructions="be brief", max_output_tokens=8, extra_body={"seed": 1})
    b = client.responses.create(model=MODEL, input=HI, instructions="be brief", max_output_tokens=8, extra_body={"seed": 1})
    assert a.output_text == b.output_text and a.usage.total_tokens == a.usage.input_tokens + a.usage.output_tokens
    assert a.status == ("incomplete" if a.incomplete_details else "completed")
    with client.responses.stream(model=MODEL, input=HI, instructions="be brief", max_output_tokens=8, extra_body={"seed": 1}) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
    assert text == a.output_text
    c = client.responses.create(model=MODEL, input="more", previous_response_id=a.id, max_output_tokens=4)
    d = client.responses.create(model=MODEL, input=[*HI, *a.output, {"role": "user", "content": "more"}], max_output_tokens=4, store=False)
    assert c.usage.input_tokens == d.usage.input_tokens
    assert client.responses.retrieve(a.id).output_text == a.output_text
    client.responses.delete(a.id)
    for gone in (a.id, d.id):
        try:
            client.responses.retrieve(gone)
            raise AssertionError("an answer that is not stored")
        except openai.NotFoundError:
            pass
    for seed in range(4):
        more = {"model": MODEL, "input": HI, "tools": [flat], "tool_choice": "required", "extra_body": {"seed": seed}}
        call = client.responses.create(**more).output[0]
        jsonschema.validate(json.loads(call.arguments), flat["parameters"])
        with client.responses.stream(**more) as stream:
            assert stream.get_final_response().output[0].arguments == call.arguments
        client.responses.create(model=MODEL, max_output_tokens=4, tools=[flat], input=[
            *HI, call, {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}])
    plan = client.responses.parse(model=MODEL, input=HI, text_format=Plan, max_output_tokens=1500)
    assert isinstance(plan.output_parsed, Plan)
    a = client.responses.with_raw_response.create(model=MODEL, input=HI, max_output_tokens=1, tools=[{"type": "web_search"}])
    assert a.headers["x-pilotfish-ignored"] == "tools[0]: web_search"


def messages():
    tool = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}
    few = {"model": MODEL, "max_tokens": 8, "system": "be brief", "messages": HI, "extra_body": {"seed": 1}}
    a = claude.messages.create(**few)
    with claude.messages.stream(**few) as stream:
        text = "".join(stream.text_stream)
        b = stream.get_final_message()
    assert text == a.content[0].text and a.stop_reason == b.stop_reason in ("max_tokens", "end_turn")
    assert a.usage.output_tokens == b.usage.output_tokens
    count = claude.messages.count_tokens(model=MODEL, system="be brief", messages=HI).input_tokens
    for m in (a, b):
        assert count == m.usage.input_tokens + m.usage.cache_read_input_tokens
    for choice in ({"type": "any"}, {"type": "tool", "name": "weather"}):
        more = {"model": MODEL, "max_tokens": 500, "messages": HI, "tools": [tool], "tool_choice": choice, "extra_body": {"seed": 2}}
        c = claude.messages.create(**more)
        assert c.stop_reason == "tool_use"
        jsonschema.validate(c.content[0].input, tool["input_schema"])
        with claude.messages.stream(**more) as stream:
            assert stream.get_final_message().content[0].input == c.content[0].input
        claude.messages.create(model=MODEL, max_tokens=4, tools=[tool], messages=[*HI, {"role": "assistant", "content": c.content}, {
            "role": "user", "content": [{"type": "tool_result", "tool_use_id": c.content[0].id, "content": "rain"}]}])
    d = claude.messages.create(model=MODEL, max_tokens=8, messages=HI, stop_sequences=["AAA", "AA"],
                               extra_body={"logit_bias": {"65": 100}})
    assert (d.stop_reason, d.stop_sequence) == ("stop_sequence", "AA"), d
    assert claude.models.retrieve(MODEL).id == MODEL

    @anthropic.beta_tool
    def weather(days: int) -> str:
        """The weather."""
        return "rain"

    runs = claude.beta.messages.tool_runner(model=MODEL, max_tokens=500, messages=HI, tools=[weather], max_iterations=3,
                                            tool_choice={"type": "any"})
    assert [run.stop_reason for run in runs] == ["tool_use"] * 3
    for wrong, kind in (({"model": "none"}, anthropic.NotFoundError), ({"messages": []}, anthropic.BadRequestError)):
        try:
            claude.messages.create(**{**few, **wrong})
            raise AssertionError(wrong)
        except kind as e:
            assert e.body["type"] == "error" and e.request_id, e.body
    try:
        anthropic.Anthropic(base_url=URL.removesuffix("/v1"), api_key="wrong", max_retries=0).models.list()
        raise AssertionError("a wrong key")
    except anthropic.AuthenticationError as e:
        assert e.body["error"]["type"] == "authentication_error"


def agent():
    called = []

    @agents.function_tool
    def weather(days: int) -> str:
        called.append(days)
        return "rain"

    agents.set_tracing_disabled(True)
    model = agents.OpenAIResponsesModel(MODEL, openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0))
    one = agents.Agent("a", instructions="be brief", tools=[weather], model=model, tool_use_behavior="stop_on_first_tool",
                       model_settings=agents.ModelSettings(tool_choice="required"))

    async def both():
        whole = await agents.Runner.run(one, "hi")
        run = agents.Runner.run_streamed(one, "hi")
        kinds = [event.type async for event in run.stream_events()]
        assert whole.final_output == run.final_output == "rain" and "raw_response_event" in kinds

    asyncio.run(both())
    assert len(called) == 2


def cancel():
    stream = client.completions.create(model=MODEL, prompt="a", max_tokens=8000, stream=True, logit_bias={"65": 100})
    next(iter(stream))
    stream.close()

    async def one():
        many = openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)
        tasks = [asyncio.create_task(many.completions.create(model=MODEL, prompt="a", max_tokens=8000, logit_bias={"65": 100}))
                 for _ in range(6)]
        await asyncio.sleep(0.2)
        for t in tasks:
            t.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await many.close()

    asyncio.run(one())
    begin = time.monotonic()
    while health()["active"] or health()["waiting"]:
        assert time.monotonic() < begin + 5, "an abandoned request continues"
        time.sleep(0.01)


for check in (models, chat, streaming, settings, tools, schemas, random_schemas, errors, responses, messages, agent, cancel):
    begin = time.monotonic()
    check()
    print(f"openai {openai.__version__} and anthropic {anthropic.__version__} for Python: {check.__name__}: {time.monotonic() - begin:.2f} s")
