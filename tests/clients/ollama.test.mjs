// SPDX-License-Identifier: Apache-2.0
// Ollama's library on the port for its clients, then requests as applications send them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Ollama } from 'ollama';
import { root, startServer } from '../node/server.mjs';

const examples = `${root}/examples`;
const expected = JSON.parse(readFileSync(`${examples}/expected.json`));
const image = (name) => readFileSync(`${examples}/${name}`).toString('base64');
const question = { model: 'qwen3-vl:4b', options: { temperature: 0 } };
const about = (name) => [{ role: 'user', content: 'Describe this image.', images: [image(name)] }];
let server, url, client;

before(async () => {
  server = await startServer('--served-model-name', 'Qwen/Qwen3-VL-4B-Instruct-FP8', '--ollama', '0', '--idle-unload', '60', '--api-key', 'k', '--ollama-insecure');
  url = /clients find it at (http:\/\/\S+)/.exec(server.log())[1];
  client = new Ollama({ host: url });
});
after(() => server?.stop());

const post = (path, body, headers = {}) => fetch(url + path, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body), headers });
const answer = async (path, body) => {
  const response = await post(path, body);
  assert.equal(response.status, 200, await response.clone().text());
  return response.json();
};
const lines = async (response) => (await response.text()).trim().split('\n').map((line) => JSON.parse(line));

// ---- the library ----

test('list, ps, show, version', async () => {
  const { models: [model] } = await client.list();
  assert.equal(model.name, 'qwen3-vl:4b');
  assert.equal(model.details.family, 'qwen3vl');
  assert.match(model.digest, /^[0-9a-f]{64}$/);
  assert.equal((await client.ps()).models[0].digest, model.digest);
  const shown = await client.show({ model: 'qwen3-vl:4b' });
  assert.deepEqual(shown.capabilities, ['completion', 'vision', 'tools']);
  assert.equal(shown.model_info['qwen3vl.context_length'], 4096);
  assert.match((await client.version()).version, /^[0-9.]+$/);
});

for (const name of ['shapes-4.png', 'word-2.jpg'])
  test(`chat: ${name} is described`, async () => {
    const { message, ...rest } = await client.chat({ ...question, messages: about(name) });
    assert.deepEqual(message, { role: 'assistant', content: expected[name] });
    assert.equal(rest.model, question.model);
    assert.equal(rest.done_reason, 'stop');
    assert.ok(rest.eval_count > 3 && rest.prompt_eval_count > rest.eval_count);
    assert.ok(rest.total_duration >= rest.prompt_eval_duration + rest.eval_duration - 5e7 && Number.isInteger(rest.total_duration));
    assert.ok(Math.abs(new Date(rest.created_at) - Date.now()) < 60000);
  });

test('chat, streamed: the same text, piece by piece', async () => {
  const pieces = [];
  for await (const piece of await client.chat({ ...question, messages: about('shapes-4.png'), stream: true })) pieces.push(piece);
  assert.equal(pieces.map((piece) => piece.message.content).join(''), expected['shapes-4.png']);
  assert.deepEqual(pieces.map((piece) => piece.done), [...Array(pieces.length - 1).fill(false), true]);
  assert.equal(pieces.at(-1).done_reason, 'stop');
});

test('generate, with a schema', async () => {
  const format = { $schema: 'x', type: 'object', properties: { words: { type: 'array', items: { type: 'string', maxLength: 8 }, maxItems: 2, uniqueItems: true } }, required: ['words'], additionalProperties: false };
  const { response, warnings } = await client.generate({ ...question, prompt: 'Describe this image.', images: [image('word-2.jpg')], format });
  const { words } = JSON.parse(response);
  assert.ok(words.length <= 2 && words.every((word) => word.length <= 8));
  assert.match(warnings[0], /uniqueItems/);
});

test('the same answer and counts as with /v1', async () => {
  const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${image('shapes-4.png')}` } }, { type: 'text', text: 'Describe this image.' }] }];
  const response = await post('/v1/chat/completions', { model: 'qwen3-vl:4b', temperature: 0, messages }, { 'Content-Type': 'application/json' });
  const { choices, usage } = await response.json();
  const ours = await client.chat({ ...question, messages: about('shapes-4.png') });
  assert.equal(choices[0].message.content, ours.message.content);
  assert.deepEqual([usage.prompt_tokens, usage.completion_tokens], [ours.prompt_eval_count, ours.eval_count]);
});

test('length, and stop texts', async () => {
  const ask = (options) => client.chat({ model: question.model, messages: about('shapes-4.png'), options: { temperature: 0, ...options } });
  const cut = await ask({ num_predict: 3 });
  assert.equal(cut.done_reason, 'length');
  assert.equal(cut.eval_count, 3);
  assert.equal((await ask({ stop: [' heart'] })).message.content, expected['shapes-4.png'].split(' heart')[0]);
  assert.equal((await ask({ num_predict: 1000000 })).done_reason, 'stop'); // more than the context: no error
});

test('loaded and unloaded', async () => {
  const unloaded = await client.generate({ model: question.model, prompt: '', keep_alive: 0 });
  assert.deepEqual([unloaded.done, unloaded.done_reason, unloaded.response], [true, 'unload', '']);
  const end = Date.now() + 20000;
  while ((await client.ps()).models.length && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal((await client.ps()).models.length, 0);
  const loaded = await client.chat({ model: question.model, messages: [] });
  assert.deepEqual([loaded.done_reason, loaded.message.content], ['load', '']);
  assert.equal((await client.ps()).models.length, 1);
});

test('keep_alive: longer than --idle-unload, never shorter, or forever', async () => {
  const seconds = async (keep_alive) => {
    await client.generate({ model: question.model, prompt: '', keep_alive });
    return (new Date((await client.ps()).models[0].expires_at) - Date.now()) / 1000;
  };
  assert.ok(Math.abs((await seconds('10m')) - 600) < 15);
  assert.ok(Math.abs((await seconds(5)) - 60) < 15);
  assert.ok((await seconds(-1)) > 1e9);
});

test('pull of a served model succeeds; other pulls, delete and embed are refused', async () => {
  assert.equal((await client.pull({ model: 'qwen3-vl:4b' })).status, 'success');
  const seen = [];
  for await (const { status } of await client.pull({ model: 'qwen3-vl', stream: true })) seen.push(status);
  assert.equal(seen.at(-1), 'success');
  await assert.rejects(client.pull({ model: 'llama3' }), { status_code: 501 });
  await assert.rejects(client.delete({ model: 'qwen3-vl:4b' }), { status_code: 501 });
  await assert.rejects(client.delete({ model: 'llama3' }), { status_code: 404 });
  await assert.rejects(client.embed({ model: 'qwen3-vl:4b', input: 'x' }), { status_code: 400, message: /does not support embedding/ });
});

test('errors have Ollama\'s messages', async () => {
  await assert.rejects(client.chat({ model: 'llama3', messages: about('word-2.jpg') }),
    { status_code: 404, message: /^model 'llama3' not found, try pulling it first \(served here: Qwen\/Qwen3-VL-4B-Instruct-FP8\)$/ });
  await assert.rejects(client.chat({ ...question, think: true, messages: about('word-2.jpg') }), { status_code: 400, message: '"qwen3-vl:4b" does not support thinking' });
  await assert.rejects(client.generate({ ...question, prompt: 'word '.repeat(6000) }), { status_code: 400, message: 'the input length exceeds the context length' });
  const empty = await post('/api/chat', '');
  assert.deepEqual([empty.status, await empty.json()], [400, { error: 'missing request body' }]);
  const nameless = await post('/api/show', {});
  assert.deepEqual([nameless.status, await nameless.json()], [400, { error: 'model is required' }]);
});

test('a chat that is too long loses its oldest messages, with a warning', async () => {
  const history = Array.from({ length: 40 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', content: 'word '.repeat(200) }));
  const messages = [{ role: 'system', content: 'S' }, ...history, ...about('shapes-4.png')];
  const response = await post('/api/chat', { ...question, messages, stream: false });
  assert.equal(response.status, 200);
  assert.match(response.headers.get('warning'), /the [0-9]+ oldest messages did not fit/);
  assert.ok((await response.json()).prompt_eval_count > 1000);
  await assert.rejects(client.chat({ ...question, messages, truncate: false }), { status_code: 400, message: 'the input length exceeds the context length' });
});

test('a client that hangs up ends its answer', async () => {
  const stream = await client.generate({ model: question.model, prompt: 'x', raw: true, stream: true, options: { num_predict: 3000 } });
  stream.abort();
  await assert.rejects(async () => { for await (const piece of stream) assert.ok(piece); }, { name: 'AbortError' });
});

// ---- names ----

for (const name of ['qwen3-vl', 'qwen3-vl:latest', 'Qwen3-VL:4B', 'qwen3-vl:4b-instruct', 'qwen3-vl:4b-fp8', 'Qwen/Qwen3-VL-4B-Instruct-FP8:latest',
  'hf.co/Qwen/Qwen3-VL-4B-Instruct-FP8', 'hf.co/Qwen/Qwen3-VL-4B-Instruct-FP8:fp8'])
  test(`${name} names the model`, async () => {
    assert.equal((await post('/api/show', { model: name })).status, 200);
  });
for (const name of ['qwen3-vl:8b', 'qwen3-vl:4b-thinking', 'qwen3-vl:4b-bf16', 'qwen3-vl:4b-q4_K_M', 'hf.co/Qwen/Qwen3-VL-4B-Instruct-GGUF'])
  test(`${name} names no model`, async () => {
    assert.equal((await post('/api/show', { model: name })).status, 404);
  });

// ---- applications ----

test('presence: Ollama\'s text at the root, and HEAD', async () => {
  assert.equal(await (await fetch(url)).text(), 'Ollama is running');
  assert.equal((await fetch(url, { method: 'HEAD' })).status, 200);
  assert.equal((await fetch(`${url}/api/version`, { method: 'HEAD' })).status, 200);
});

test('Frigate: show, then generate of two images with a stripped schema', async () => {
  assert.ok(!(await answer('/api/show', { model: 'qwen3-vl:4b' })).capabilities.includes('thinking'));
  const { response } = await answer('/api/generate', { model: 'qwen3-vl:4b', prompt: 'Describe this image.', images: [image('word-2.jpg'), image('shapes-4.png')],
    format: { type: 'object', properties: { title: { type: 'string', maxLength: 12 }, score: { type: 'integer' } }, required: ['title', 'score'] },
    options: { temperature: 0.5, repeat_penalty: 1.05, presence_penalty: 0.3 }, stream: false });
  assert.deepEqual(Object.keys(JSON.parse(response)), ['title', 'score']);
});

test('LLM Vision: images also at the top level, a prompt that is a list', async () => {
  assert.equal((await fetch(`${url}/api/tags`)).status, 200);
  const { message } = await answer('/api/chat', { model: 'qwen3-vl:4b', messages: about('shapes-4.png'), system: 'S', prompt: ['x'], images: [image('shapes-4.png')],
    stream: false, keep_alive: 5, options: { num_predict: 100, temperature: 0, top_p: 0.9, num_ctx: 2048 } });
  assert.equal(message.content, expected['shapes-4.png']);
});

test('Home Assistant: tools in a stream, a result in the history', async () => {
  const tools = [{ type: 'function', function: { name: 'HassTurnOff', description: 'Off.', parameters: { type: 'object', properties: { area: { type: 'string' } } } } }];
  const response = await post('/api/chat', { model: 'qwen3-vl:4b', stream: true, tools, keep_alive: '300s', think: null, options: { num_ctx: 8192, num_predict: 20 }, messages: [
    { role: 'system', content: 'You are a home.' }, { role: 'user', content: 'off' },
    { role: 'assistant', content: '', tool_calls: [{ function: { name: 'HassTurnOff', arguments: { area: 'kitchen' } } }] }, { role: 'tool', content: '{"ok": true}' }] });
  assert.equal(response.headers.get('content-type'), 'application/x-ndjson');
  assert.match(response.headers.get('warning') ?? '', /num_ctx/);
  const all = await lines(response);
  assert.ok(all.every(({ message }) => typeof message.content === 'string'));
  assert.equal(all.at(-1).done, true);
});

test('PhotoPrism: unknown members; the last object has the text', async () => {
  const { response } = await answer('/api/generate', { id: '1', version: 'latest', schema: '', model: 'qwen3-vl:4b', suffix: '', system: 'S', prompt: 'Describe this image.',
    images: [image('word-2.jpg')], format: 'json', options: { stop: ['\n\n'], num_predict: 200 }, stream: false });
  assert.ok(response.startsWith('{'));
});

test('Zed: nulls, no tools; a strict reader of tags', async () => {
  for (const model of (await (await fetch(`${url}/api/tags`)).json()).models) {
    assert.ok(['name', 'modified_at', 'digest'].every((key) => typeof model[key] === 'string') && Number.isInteger(model.size));
    assert.ok(['format', 'family', 'parameter_size', 'quantization_level'].every((key) => typeof model.details[key] === 'string'));
    assert.ok(Array.isArray(model.details.families));
  }
  const all = await lines(await post('/api/chat', { model: 'qwen3-vl:4b', messages: about('shapes-4.png'), stream: true, keep_alive: -1, think: null, tools: [],
    options: { num_ctx: null, num_predict: null, stop: null, temperature: 0, top_p: null } }));
  assert.equal(all.map(({ message }) => message.content).join(''), expected['shapes-4.png']);
});

test('Open WebUI, Continue: running models, names without a tag, show by name', async () => {
  const { models: [model] } = await (await fetch(`${url}/api/ps`)).json();
  assert.ok(!Number.isNaN(Date.parse(model.expires_at)) && model.size > 0);
  const shown = await answer('/api/show', { name: 'qwen3-vl:latest' });
  assert.match(shown.parameters, /num_ctx +4096\n/);
  assert.match(shown.parameters, /stop +"<\|im_end\|>"/);
});

test('Frigate\'s paths without /v1, /props and /models', async () => {
  const client = (path) => fetch(url + path).then((response) => response.json());
  const { data: [model] } = await client('/models');
  assert.ok(model.aliases.includes('qwen3-vl:4b') && model.architecture.input_modalities.includes('image') && model.meta.n_ctx === 4096);
  const props = await client('/props?model=qwen3-vl:4b');
  assert.ok(props.modalities.vision && props.chat_template_caps.supports_tools && props.default_generation_settings.n_ctx === 4096);
  const response = await post('/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 1 }, { 'Content-Type': 'application/json' });
  assert.equal(response.status, 200);
});

test('llama.cpp\'s completion, template and tokens', async () => {
  const { content, stop_type, tokens_evaluated, timings } = await answer('/completion', { prompt: 'A red', n_predict: 4, temperature: 0, ignore_eos: true });
  assert.ok(content.length && stop_type === 'limit' && timings.predicted_n === 4 && timings.cache_n + timings.prompt_n === tokens_evaluated);
  const { prompt } = await answer('/apply-template', { messages: [{ role: 'user', content: 'hi' }] });
  assert.match(prompt, /<\|im_start\|>user\nhi<\|im_end\|>/);
  const response = await post('/tokenize', { content: 'a red', with_pieces: true }, { 'Content-Type': 'application/json' });
  const { tokens } = await response.json();
  assert.equal(tokens.map(({ piece }) => piece).join(''), 'a red');
  const refused = await post('/infill', {});
  assert.deepEqual([refused.status, (await refused.json()).error.type], [501, 'not_supported_error']);
});

test('curl -d sends no JSON type: accepted on /api, but not from a web page', async () => {
  const type = { 'Content-Type': 'application/x-www-form-urlencoded' };
  assert.equal((await post('/api/show', { model: 'qwen3-vl:4b' }, type)).status, 200);
  assert.equal((await post('/api/show', { model: 'qwen3-vl:4b' }, { ...type, Origin: 'http://evil.example' })).status, 403);
  assert.equal((await post('/api/show', { model: 'qwen3-vl:4b' }, { ...type, Origin: 'http://localhost:3000' })).status, 415);
  assert.equal((await post('/api/show', { model: 'qwen3-vl:4b' }, { Origin: 'http://localhost:3000', 'Content-Type': 'application/json' })).status, 200);
});

test('the main port needs its key, which may be in x-api-key', async () => {
  assert.deepEqual(await (await fetch(`${server.url}/api/tags`)).json(), { error: 'unauthorized' });
  assert.equal((await fetch(`${server.url}/api/tags`, { headers: { 'x-api-key': 'k' } })).status, 200);
  assert.equal((await fetch(`${server.url}/api/tags`, { headers: { authorization: 'bearer k' } })).status, 200);
});
