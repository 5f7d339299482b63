// SPDX-License-Identifier: Apache-2.0
// Anthropic's library against the server.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import Anthropic, { AuthenticationError, BadRequestError, NotFoundError } from '@anthropic-ai/sdk';
import { root, startServer } from '../node/server.mjs';

const examples = `${root}/examples`;
const expected = JSON.parse(readFileSync(`${examples}/expected.json`));
const question = { model: 'claude-demo', max_tokens: 64 };
const extra = { temperature: 0 };
const image = (name) => ({ type: 'image', source: { type: 'base64', media_type: name.endsWith('.jpg') ? 'image/jpeg' : 'image/png', data: readFileSync(`${examples}/${name}`).toString('base64') } });
const text = (words) => ({ type: 'text', text: words });
const about = (name) => [{ role: 'user', content: [image(name), text('Describe this image.')] }];
const tool = { name: 'note', description: 'Keeps a note.', input_schema: { type: 'object', properties: { words: { type: 'integer', minimum: 0, maximum: 99 } }, required: ['words'], additionalProperties: false } };
let server, client;

before(async () => {
  server = await startServer('--served-model-name', 'demo', 'claude-demo', '--api-key', 'k');
  client = new Anthropic({ baseURL: server.url, apiKey: 'k', maxRetries: 0 });
});
after(() => server?.stop());

const ask = (more) => client.messages.create({ ...question, ...extra, messages: about('shapes-4.png'), ...more });

for (const name of ['shapes-4.png', 'word-2.jpg'])
  test(`messages.create: ${name} is described`, async () => {
    const message = await ask({ messages: about(name) });
    assert.deepEqual(message.content, [text(expected[name])]);
    assert.equal(message.model, 'claude-demo');
    assert.equal(message.stop_reason, 'end_turn');
    assert.equal(message.stop_sequence, null);
    assert.match(message.id, /^msg_/);
    assert.ok(message._request_id.startsWith('req_'));
  });

test('messages.stream: the same, piece by piece', async () => {
  const pieces = [];
  const stream = client.messages.stream({ ...question, ...extra, messages: about('shapes-4.png') }).on('text', (piece) => pieces.push(piece));
  const message = await stream.finalMessage();
  assert.equal(pieces.join(''), expected['shapes-4.png']);
  assert.deepEqual(message.content, [text(expected['shapes-4.png'])]);
  assert.equal(message.stop_reason, 'end_turn');
  const whole = await ask();
  assert.equal(message.usage.output_tokens, whole.usage.output_tokens);
});

test('the same text and counts as by /v1/chat/completions', async () => {
  const url = `data:image/png;base64,${image('shapes-4.png').source.data}`;
  const body = { model: 'demo', temperature: 0, messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }, text('Describe this image.')] }] };
  const response = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', Authorization: 'Bearer k' } });
  const { choices, usage } = await response.json();
  const ours = await ask();
  assert.equal(choices[0].message.content, ours.content[0].text);
  assert.deepEqual([usage.prompt_tokens, usage.completion_tokens], [ours.usage.input_tokens + ours.usage.cache_read_input_tokens, ours.usage.output_tokens]);
  const counted = await client.messages.countTokens({ model: 'demo', messages: about('shapes-4.png') });
  assert.equal(counted.input_tokens, usage.prompt_tokens);
});

for (const choice of [{ type: 'any' }, { type: 'tool', name: 'note' }])
  test(`tool_choice ${choice.type}: a call, whole and streamed`, async () => {
    const more = { tools: [tool], tool_choice: { ...choice, disable_parallel_tool_use: true } };
    const message = await ask(more);
    const [call] = message.content;
    assert.equal(message.stop_reason, 'tool_use');
    assert.equal(call.name, 'note');
    assert.ok(Number.isInteger(call.input.words));
    assert.match(call.id, /^toolu_/);
    const streamed = await client.messages.stream({ ...question, ...extra, ...more, messages: about('shapes-4.png') }).finalMessage();
    assert.deepEqual(streamed.content.map(({ id, ...rest }) => rest), message.content.map(({ id, ...rest }) => rest));
    assert.equal(streamed.stop_reason, 'tool_use');
  });

test('the model sees an image in a tool result', async () => {
  const messages = [{ role: 'user', content: 'Describe this image.' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'note', input: { words: 1 } }] }];
  const result = (content) => ({ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content }] });
  const count = (content) => client.messages.countTokens({ model: 'demo', tools: [tool], messages: [...messages, result(content)] });
  const [without, with_] = [await count([text('done')]), await count([text('done'), image('shapes-4.png')])];
  const alone = (await client.messages.countTokens({ model: 'demo', messages: about('shapes-4.png') })).input_tokens - (await client.messages.countTokens({ model: 'demo', messages: [{ role: 'user', content: 'Describe this image.' }] })).input_tokens;
  assert.equal(with_.input_tokens - without.input_tokens, alone);
  const answer = await ask({ tools: [tool], messages: [...messages, result([image('word-2.jpg')])] });
  assert.ok(answer.usage.output_tokens > 0);
});

test('stop_sequences, max_tokens, thinking without support', async () => {
  const stopped = await ask({ stop_sequences: [' on'] });
  assert.equal(stopped.stop_reason, 'stop_sequence');
  assert.equal(stopped.stop_sequence, ' on');
  assert.equal(stopped.content[0].text, expected['shapes-4.png'].split(' on')[0]);
  assert.equal((await ask({ max_tokens: 2 })).stop_reason, 'max_tokens');
  assert.equal((await ask({ max_tokens: 16000, thinking: { type: 'adaptive' } })).stop_reason, 'end_turn');
});

test('errors have the library\'s classes', async () => {
  await assert.rejects(ask({ model: 'claude-nobody' }), (e) => e instanceof NotFoundError && e.error.error.type === 'not_found_error' && /claude-nobody is not served here/.test(e.message));
  await assert.rejects(ask({ max_tokens: 0 }), (e) => e instanceof BadRequestError && e.error.error.type === 'invalid_request_error');
  await assert.rejects(ask({ messages: [{ role: 'user', content: 'word '.repeat(9000) }] }), (e) => e instanceof BadRequestError && /prompt is too long: \d+ tokens > 4096 maximum/.test(e.message));
  const stranger = new Anthropic({ baseURL: server.url, apiKey: 'wrong', maxRetries: 0 });
  await assert.rejects(stranger.messages.create({ ...question, messages: about('shapes-4.png') }), (e) => e instanceof AuthenticationError && e.error.error.type === 'authentication_error');
});

test('models.list', async () => {
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.deepEqual(names, ['demo', 'claude-demo']);
});
