// SPDX-License-Identifier: Apache-2.0
// The demo model under a template that opens a thought, as Qwen3-VL-Thinking's does: thoughts and text by all dialects.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { root, startServer } from '../node/server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'eyelet-thinking-'));
const image = readFileSync(`${root}/examples/shapes-1.png`).toString('base64');
let server, client;

before(async () => {
  for (const name of readdirSync(`${root}/models/demo`)) symlinkSync(`${root}/models/demo/${name}`, join(folder, name));
  writeFileSync(join(folder, 'chat_template.jinja'), "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n<think>\\n' }}\n{%- endif %}\n");
  server = await startServer('--model', folder, '--served-model-name', 'thinker');
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none' });
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

test('thinking: what comes before </think> is reasoning_content, streamed alike', async () => {
  const { choices: [{ message }], usage } = await ask({ thinking_token_budget: 4 });
  assert.ok(message.reasoning_content.length > 0);
  assert.equal(message.reasoning, message.reasoning_content);
  assert.equal(typeof message.content, 'string');
  assert.ok(usage.completion_tokens_details.reasoning_tokens > 4);
  assert.deepEqual(await stream({ thinking_token_budget: 4 }), { thought: message.reasoning_content, text: message.content });
});

test('thinking: without an end all of it is a thought, and content is empty, not null', async () => {
  const { choices: [{ message }] } = await ask({ max_tokens: 3 });
  assert.ok(message.reasoning_content.length > 0);
  assert.equal(message.content, '');
});

test('thinking: off by enable_thinking, reasoning_effort and a budget of 0', async () => {
  for (const off of [{ chat_template_kwargs: { enable_thinking: false } }, { reasoning_effort: 'none' }, { thinking_token_budget: 0 }]) {
    const { choices: [{ message }] } = await ask(off);
    assert.ok(!('reasoning_content' in message), JSON.stringify(off));
    assert.ok(message.content.length > 0);
  }
  const { choices: [{ message }] } = await ask({ thinking_token_budget: 4, include_reasoning: false });
  assert.ok(!('reasoning_content' in message));
});

test('thinking: a schema holds behind the thought', async () => {
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

test('thinking: wrong types are refused', async () => {
  for (const wrong of [{ chat_template_kwargs: { enable_thinking: 'no' } }, { thinking_token_budget: true }, { thinking_token_budget: 1.5 }, { reasoning_effort: 'much' },
    { repetition_detection: { max_pattern_size: 4, min_count: 1 } }])
    await assert.rejects(ask(wrong), { status: 400 }, JSON.stringify(wrong));
});
