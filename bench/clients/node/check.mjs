// Tries a server with the clients of OpenAI and Anthropic for Node: node check.mjs BASE_URL KEY

import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const claude = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ''), apiKey, maxRetries: 0 });
const models = await client.models.list();
const model = models.data[0].id;
const messages = [{ role: 'user', content: 'hi' }];
const tool = {
  type: 'function',
  function: {
    name: 'weather',
    parameters: {
      type: 'object',
      properties: { days: { type: 'integer', minimum: 1, maximum: 7 } },
      required: ['days'],
      additionalProperties: false,
    },
  },
};

async function health() {
  const answer = await fetch(baseURL.replace(/\/v1$/, '/health'));
  return answer.json();
}

const checks = {
  async chat() {
    const a = await client.chat.completions.create({ model, messages, max_completion_tokens: 8, seed: 1 });
    assert.ok(a.choices[0].message.content);
    assert.equal(a.usage.total_tokens, a.usage.prompt_tokens + a.usage.completion_tokens);
    const b = await client.chat.completions.create({ model, messages, max_completion_tokens: 8, seed: 1 });
    assert.equal(a.choices[0].message.content, b.choices[0].message.content);
  },

  async streaming() {
    const whole = await client.chat.completions.create({ model, messages, max_tokens: 20, seed: 2 });
    const stream = await client.chat.completions.create({
      model, messages, max_tokens: 20, seed: 2, stream: true, stream_options: { include_usage: true },
    });
    let text = '';
    let usage;
    for await (const chunk of stream) {
      usage = chunk.usage ?? usage;
      text += chunk.choices[0]?.delta?.content ?? '';
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
    const final = await client.chat.completions.stream({ model, messages, max_tokens: 20, seed: 2 }).finalContent();
    assert.equal(final, text);
    let completion = '';
    for await (const c of await client.completions.create({ model, prompt: 'a', max_tokens: 20, seed: 2, stream: true })) {
      completion += c.choices[0].text;
    }
    assert.ok(completion.length > 0);
  },

  async tools() {
    const a = await client.chat.completions.create({ model, messages, tools: [tool], tool_choice: 'required', seed: 1 });
    const call = a.choices[0].message.tool_calls[0];
    assert.equal(a.choices[0].finish_reason, 'tool_calls');
    assert.equal(call.function.name, 'weather');
    const { days } = JSON.parse(call.function.arguments);
    assert.ok(days >= 1 && days <= 7);
    const runner = client.chat.completions.stream({ model, messages, tools: [tool], tool_choice: 'required', seed: 1 });
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
    const next = await client.chat.completions.create({
      model, tools: [tool], max_tokens: 4,
      messages: [...messages, a.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'rain' }],
    });
    assert.ok(next.usage.prompt_tokens > a.usage.prompt_tokens);
  },

  async schemas() {
    const schema = {
      type: 'object',
      properties: { a: { type: 'boolean' }, b: { enum: ['x', 'y'] } },
      required: ['a', 'b'],
      additionalProperties: false,
    };
    for (let seed = 0; seed < 5; seed++) {
      const a = await client.chat.completions.create({
        model, messages, seed, response_format: { type: 'json_schema', json_schema: { name: 's', strict: true, schema } },
      });
      const v = JSON.parse(a.choices[0].message.content);
      assert.equal(typeof v.a, 'boolean');
      assert.ok(['x', 'y'].includes(v.b));
    }
  },

  async errors() {
    await assert.rejects(client.chat.completions.create({ model, messages, temperature: -1 }),
      (e) => e instanceof OpenAI.BadRequestError && e.param === 'temperature' && e.type === 'invalid_request_error');
    await assert.rejects(client.chat.completions.create({ model: 'none', messages }),
      (e) => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found');
    await assert.rejects(new OpenAI({ baseURL, apiKey: 'wrong', maxRetries: 0 }).models.list(),
      (e) => e instanceof OpenAI.AuthenticationError);
    await assert.rejects(client.embeddings.create({ model, input: 'x' }), (e) => e instanceof OpenAI.NotFoundError);
  },

  async responses() {
    const few = { model, input: 'hi', instructions: 'be brief', max_output_tokens: 8, seed: 1 };
    const a = await client.responses.create(few);
    let text = '';
    const kinds = [];
    for await (const e of await client.responses.create({ ...few, stream: true })) {
      assert.equal(e.sequence_number, kinds.length);
      kinds.push(e.type);
      if (e.type === 'response.output_text.delta') text += e.delta;
    }
    assert.equal(text, a.output_text);
    assert.equal(kinds[0], 'response.created');
    assert.equal(kinds.at(-1), `response.${a.status}`);
    const b = await client.responses.create({ ...few, input: 'more', previous_response_id: a.id });
    assert.ok(b.usage.input_tokens > a.usage.input_tokens);
    await client.responses.delete(a.id);
    await assert.rejects(client.responses.retrieve(a.id), (e) => e instanceof OpenAI.NotFoundError);
    const tools = [{ type: tool.type, ...tool.function }];
    const more = { model, input: 'hi', tools, tool_choice: 'required', seed: 1 };
    const call = (await client.responses.create(more)).output[0];
    const { days } = JSON.parse(call.arguments);
    assert.ok(days >= 1 && days <= 7);
    const final = await client.responses.stream(more).finalResponse();
    assert.equal(final.output[0].arguments, call.arguments);
  },

  async messages() {
    const few = { model, max_tokens: 8, system: 'be brief', messages, seed: 1 };
    const a = await claude.messages.create(few);
    const b = await claude.messages.stream(few).finalMessage();
    assert.deepEqual(b.content, a.content);
    assert.equal(b.stop_reason, a.stop_reason);
    const tools = [{ name: 'weather', input_schema: tool.function.parameters }];
    const more = { model, max_tokens: 500, messages, tools, tool_choice: { type: 'any' }, seed: 1 };
    const c = await claude.messages.create(more);
    assert.equal(c.stop_reason, 'tool_use');
    assert.ok(c.content[0].input.days >= 1);
    const d = await claude.messages.stream(more).finalMessage();
    assert.deepEqual(d.content[0].input, c.content[0].input);
    const n = await claude.messages.countTokens({ model, system: 'be brief', messages });
    assert.equal(n.input_tokens, a.usage.input_tokens + a.usage.cache_read_input_tokens);
    await assert.rejects(claude.messages.create({ ...few, model: 'none' }), (e) => e instanceof Anthropic.NotFoundError);
    await assert.rejects(claude.messages.create({ ...few, messages: [] }), (e) => e instanceof Anthropic.BadRequestError);
  },

  async cancel() {
    const stream = await client.completions.create({ model, prompt: 'a', max_tokens: 8000, stream: true, logit_bias: { 65: 100 } });
    for await (const _ of stream) {
      stream.controller.abort();
      break;
    }
    const abort = new AbortController();
    const one = client.completions.create({ model, prompt: 'a', max_tokens: 8000, logit_bias: { 65: 100 } }, { signal: abort.signal });
    setTimeout(() => abort.abort(), 100);
    await assert.rejects(one, (e) => e instanceof OpenAI.APIUserAbortError);
    const begin = Date.now();
    while ((await health()).active > 0) {
      assert.ok(Date.now() < begin + 5000, 'an abandoned request continues');
    }
  },
};

for (const [name, check] of Object.entries(checks)) {
  const begin = Date.now();
  await check();
  console.log(`openai and @anthropic-ai/sdk for Node: ${name}: ${(Date.now() - begin) / 1000} s`);
}
