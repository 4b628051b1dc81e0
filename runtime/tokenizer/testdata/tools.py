"""Writes tools.json: chats with tools as the template of Qwen2.5 writes them.

    python tools.py TEMPLATE > tools.json

TEMPLATE is a file with the text of tokenizer.chat_template of a model of Qwen2.5, such as the field chat_template of its
tokenizer_config.json. It needs jinja2. JSON is written as transformers does in templates.
"""

import json
import sys

import jinja2.sandbox


def tojson(value):
    return json.dumps(value, ensure_ascii=False)


def tool(name, parameters=None, **more):
    function = {"name": name, **more}
    if parameters is not None:
        function["parameters"] = parameters
    return {"type": "function", "function": function}


def call(name, arguments):
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


WEATHER = tool("get_weather", {
    "type": "object",
    "properties": {"city": {"type": "string", "description": 'a "town", öst\\west\n\t\u0001\u007f'},
                   "days": {"type": "integer", "minimum": 0, "maximum": 1e3}},
    "required": ["city"],
}, description="Wetter <b>&amp; more</b> 天気 🐟")
TIME = tool("time")
USER = {"role": "user", "content": "How is it in Kiel?"}
SYSTEM = {"role": "system", "content": "Be brief."}
ASKED = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "Kiel", "days": [1, {"x": None}]})]}
TWICE = {"role": "assistant", "content": "Let me see.", "tool_calls": [
    call("get_weather", {"city": "Köln\n"}), call("time", {})]}


def told(text):
    return {"role": "tool", "tool_call_id": "c", "content": text}


CASES = [
    ([USER], []),
    ([SYSTEM, USER], []),
    ([USER], [WEATHER]),
    ([SYSTEM, USER], [WEATHER, TIME]),
    ([{"role": "system", "content": ""}, USER], [TIME]),
    ([USER, ASKED, told("rain")], [WEATHER]),
    ([SYSTEM, USER, TWICE, told("rain"), told("12:00"), {"role": "assistant", "content": "Rain at noon."}, USER], [WEATHER, TIME]),
    ([USER, ASKED, told("rain"), ASKED, told(""), SYSTEM, USER], [WEATHER]),
    ([USER, ASKED, told("rain")], []),
    ([told("out of nowhere")], [TIME]),
    ([USER, {"role": "assistant", "content": "Hm."}, USER], [TIME]),
]


def main():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = tojson
    with open(sys.argv[1], encoding="utf-8") as file:
        template = environment.from_string(file.read())
    out = []
    for messages, tools in CASES:
        text = template.render(messages=messages, tools=tools or None, add_generation_prompt=True)
        out.append({"messages": messages, "tools": tools, "text": text})
    json.dump(out, sys.stdout, ensure_ascii=False, indent=1)
    print()


main()
