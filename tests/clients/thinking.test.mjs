// SPDX-License-Identifier: Apache-2.0
// The demo model with a template that opens a thought, like Qwen3-VL-Thinking's: thoughts and text in all dialects.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { root, startServer } from '../node/server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'eyelet-thinking-'));
const image = readFileSync(`${root}/examples/shapes-1.png`).toString('base64');
let server, client, claude;

before(async () => {
  for (const name of readdirSync(`${root}/models/demo`)) symlinkSync(`${root}/models/demo/${name}`, join(folder, name));
  writeFileSync(join(folder, 'chat_template.jinja'), "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n<think>\\n' }}\n{%- endif %}\n");
  server = await startServer('--model', folder, '--served-model-name', 'thinker');
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none' });
  claude = new Anthropic({ baseURL: server.url, apiKey: 'none' });
});
after(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const ask = (more) => client.chat.completions.create({
  model: 'thinker', temperature: 0, max_tokens: 60, ...more,
  messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${image}` } }, { type: 'text', text: 'Describe this image.' }] }],
});

async function stream(more) {
  const deltas = [];
  for await (const chunk of await ask({ ...more, stream: true })) if (chunk.choices[0]) deltas.push(chunk.choices[0].delta);
  assert.ok(!deltas.some((d) => d.reasoning_content && d.content));
  return { thought: deltas.map((d) => d.reasoning_content || '').join(''), text: deltas.map((d) => d.content || '').join('') };
}

async function ollama(more) {
  const reply = await fetch(`${server.url}/api/chat`, { method: 'POST', body: JSON.stringify({
    model: 'thinker', stream: false, ...more, options: { temperature: 0, ...more.options }, messages: [{ role: 'user', content: 'Describe this image.', images: [image] }] }) });
  return { status: reply.status, body: await reply.json() };
}

test('thinking: the text before </think> is reasoning_content, also in streams', async () => {
  const { choices: [{ message }], usage } = await ask({ thinking_token_budget: 4 });
  assert.ok(message.reasoning_content.length > 0);
  assert.equal(message.reasoning, message.reasoning_content);
  assert.equal(typeof message.content, 'string');
  assert.ok(usage.completion_tokens_details.reasoning_tokens > 4);
  assert.deepEqual(await stream({ thinking_token_budget: 4 }), { thought: message.reasoning_content, text: message.content });
});

test('thinking: without </think> the whole answer is a thought, and content is empty, not null', async () => {
  const { choices: [{ message }] } = await ask({ max_tokens: 3 });
  assert.ok(message.reasoning_content.length > 0);
  assert.equal(message.content, '');
});

test('thinking: disabled by enable_thinking, reasoning_effort and a budget of 0', async () => {
  for (const off of [{ chat_template_kwargs: { enable_thinking: false } }, { reasoning_effort: 'none' }, { thinking_token_budget: 0 }]) {
    const { choices: [{ message }] } = await ask(off);
    assert.ok(!('reasoning_content' in message), JSON.stringify(off));
    assert.ok(message.content.length > 0);
  }
  const { choices: [{ message }] } = await ask({ thinking_token_budget: 4, include_reasoning: false });
  assert.ok(!('reasoning_content' in message));
});

test('thinking: a schema applies after the thought', async () => {
  const { choices: [{ message }] } = await ask({
    thinking_token_budget: 4, response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object', properties: { n: { type: 'integer', enum: [1, 2] } }, required: ['n'] } } } });
  assert.ok(message.reasoning_content.length > 0);
  assert.ok([1, 2].includes(JSON.parse(message.content).n));
});

test("thinking: Ollama's think, which keeps a quarter of a limited answer", async () => {
  const off = await ollama({ think: false });
  assert.equal(off.status, 200);
  assert.ok(!('thinking' in off.body.message));
  const on = await ollama({ think: true, options: { num_predict: 8 } });
  assert.ok(on.body.message.thinking.length > 0);
  assert.equal(on.body.eval_count <= 8, true);
});

const message = (more) => ({
  model: 'thinker', max_tokens: 60, ...more,
  messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: image } }, { type: 'text', text: 'Describe this image.' }] }],
});
const sampled = { temperature: 0 };

test("thinking: Anthropic's blocks, whole and streamed", async () => {
  const thinking = { type: 'enabled', budget_tokens: 4 };
  const whole = await claude.messages.create(message({ thinking, ...sampled }));
  assert.deepEqual(whole.content.map((block) => block.type), ['thinking', 'text']);
  assert.ok(whole.content[0].thinking.length > 0);
  assert.match(whole.content[0].signature, /^[0-9a-f]{32}$/);
  assert.ok(whole.usage.output_tokens_details.thinking_tokens > 4);
  const stream = claude.messages.stream(message({ thinking, ...sampled }));
  const seen = { thinking: '', text: '', signatures: [] };
  stream.on('thinking', (piece) => { seen.thinking += piece; }).on('text', (piece) => { seen.text += piece; }).on('signature', (s) => seen.signatures.push(s));
  const final = await stream.finalMessage();
  assert.deepEqual(final.content, whole.content);
  assert.deepEqual(seen, { thinking: whole.content[0].thinking, text: whole.content[1].text, signatures: [whole.content[0].signature] });
  assert.deepEqual(final.usage.output_tokens_details, whole.usage.output_tokens_details);
  const omitted = await claude.messages.create(message({ thinking: { type: 'adaptive', display: 'omitted' }, max_tokens: 20, ...sampled }));
  assert.equal(omitted.content[0].thinking, '');
  const off = await claude.messages.create(message({ thinking: { type: 'disabled' }, ...sampled }));
  assert.deepEqual(off.content.map((block) => block.type), ['text']);
});

test("thinking: Anthropic's blocks are sent back with a tool's result", async () => {
  const { content } = await claude.messages.create(message({ thinking: { type: 'enabled', budget_tokens: 4 }, ...sampled }));
  const next = await claude.messages.create({
    model: 'thinker', max_tokens: 20,
    messages: [...message().messages, { role: 'assistant', content: [...content, { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'ok' }] }] });
  assert.ok(next.usage.output_tokens > 0);
});

test('thinking: reasoning items of Responses, whole and streamed, and sent back', async () => {
  const request = { model: 'thinker', temperature: 0, max_output_tokens: 40, store: false, include: ['reasoning.encrypted_content'],
    input: [{ role: 'user', content: [{ type: 'input_image', image_url: `data:image/png;base64,${image}` }, { type: 'input_text', text: 'Describe this image.' }] }] };
  const whole = await client.responses.create(request);
  assert.deepEqual(whole.output.map((item) => item.type), ['reasoning', 'message']);
  const [{ text }] = whole.output[0].summary;
  assert.equal(Buffer.from(whole.output[0].encrypted_content, 'base64').toString(), text);
  assert.ok(whole.usage.output_tokens_details.reasoning_tokens > 0 && whole.usage.output_tokens_details.reasoning_tokens <= whole.usage.output_tokens);
  let thought = '';
  const stream = client.responses.stream(request);
  stream.on('response.reasoning_summary_text.delta', (event) => { thought += event.delta; });
  const final = await stream.finalResponse();
  assert.equal(thought, text);
  const texts = ({ output }) => output.map((item) => (item.content ?? item.summary).map((part) => part.text));
  assert.deepEqual(texts(final), texts(whole));
  assert.deepEqual(final.usage.output_tokens_details, whole.usage.output_tokens_details);
  const next = await client.responses.create({ ...request, input: [...request.input, ...whole.output, { role: 'user', content: 'And now?' }] });
  assert.ok(next.usage.input_tokens > whole.usage.input_tokens);
  const off = await client.responses.create({ ...request, reasoning: { effort: 'none' } });
  assert.deepEqual(off.output.map((item) => item.type), ['message']);
});

test('thinking: wrong types are refused', async () => {
  for (const wrong of [{ chat_template_kwargs: { enable_thinking: 'no' } }, { thinking_token_budget: true }, { thinking_token_budget: 1.5 }, { reasoning_effort: 'much' },
    { repetition_detection: { max_pattern_size: 4, min_count: 1 } }])
    await assert.rejects(ask(wrong), { status: 400 }, JSON.stringify(wrong));
});
