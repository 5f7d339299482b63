// SPDX-License-Identifier: Apache-2.0
// OpenAI's Responses with the openai library.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import OpenAI, { BadRequestError, NotFoundError } from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { root, startServer } from '../node/server.mjs';

const examples = `${root}/examples`;
const expected = JSON.parse(readFileSync(`${examples}/expected.json`));
const question = { model: 'demo', temperature: 0 };
const image = (name) => ({ type: 'input_image', detail: 'auto', image_url: `data:image/${name.endsWith('.jpg') ? 'jpeg' : 'png'};base64,${readFileSync(`${examples}/${name}`).toString('base64')}` });
const text = (words) => ({ type: 'input_text', text: words });
const about = (name) => [{ role: 'user', content: [image(name), text('Describe this image.')] }];
const tool = { type: 'function', name: 'note', description: 'Keeps a note.', strict: true, parameters: { type: 'object', properties: { words: { type: 'integer' } }, required: ['words'], additionalProperties: false } };
let server, client, other;

before(async () => {
  server = await startServer('--served-model-name', 'demo', '--api-key', 'k', '--api-key', 'other');
  [client, other] = ['k', 'other'].map((apiKey) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 }));
});
after(() => server?.stop());

const ask = (more) => client.responses.create({ ...question, input: about('shapes-4.png'), ...more });
const isGone = (of) => assert.rejects(of, (e) => e instanceof NotFoundError && e.code === null);

for (const name of ['shapes-4.png', 'word-2.jpg'])
  test(`responses.create: ${name} is described`, async () => {
    const response = await ask({ input: about(name) });
    assert.equal(response.output_text, expected[name]);
    assert.equal(response.status, 'completed');
    assert.equal(response.output[0].status, 'completed');
    assert.deepEqual([response.model, response.object, response.error, response.incomplete_details], ['demo', 'response', null, null]);
    assert.deepEqual([response.tools, response.tool_choice, response.metadata, response.store], [[], 'auto', {}, true]);
    assert.equal(response.usage.total_tokens, response.usage.input_tokens + response.usage.output_tokens);
  });

test('streamed: the same text; events in order, ids and numbers without gaps', async () => {
  const events = [];
  for await (const event of await ask({ stream: true })) events.push(event);
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
  assert.deepEqual(events.map((event) => event.type).filter((type, i, all) => type !== all[i - 1]), ['response.created', 'response.in_progress',
    'response.output_item.added', 'response.content_part.added', 'response.output_text.delta', 'response.output_text.done', 'response.content_part.done',
    'response.output_item.done', 'response.completed']);
  const deltas = events.filter((event) => event.type === 'response.output_text.delta').map((event) => event.delta);
  assert.equal(deltas.join(''), expected['shapes-4.png']);
  const { response } = events.at(-1);
  assert.deepEqual(response.output, events.filter((event) => event.type === 'response.output_item.done').map((event) => event.item));
  assert.equal(new Set(events.map((event) => event.item_id ?? event.item?.id).filter(Boolean)).size, 1);
  assert.equal(response.id, events[0].response.id);
});

test('responses.stream: finalResponse equals a whole answer', async () => {
  const final = await client.responses.stream({ ...question, input: about('shapes-4.png') }).finalResponse();
  const whole = await ask();
  assert.equal(final.output[0].content[0].text, whole.output_text);
  assert.deepEqual(final.usage.output_tokens, whole.usage.output_tokens);
  assert.deepEqual(Object.keys(final).sort().filter((key) => key !== 'output_parsed'), Object.keys(whole).sort().filter((key) => key !== 'output_text'));
});

test('responses.parse: an object of the schema', async () => {
  const Shapes = z.object({ words: z.int(), purple: z.boolean() });
  const { output_parsed } = await client.responses.parse({ ...question, input: about('shapes-4.png'), text: { format: zodTextFormat(Shapes, 'shapes') } });
  assert.deepEqual(Shapes.parse(output_parsed), output_parsed);
});

test('the same text and counts as with chat', async () => {
  const { image_url } = image('shapes-4.png');
  const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: image_url } }, { type: 'text', text: 'Describe this image.' }] }];
  const chat = await client.chat.completions.create({ ...question, messages });
  const ours = await ask();
  assert.equal(chat.choices[0].message.content, ours.output_text);
  assert.deepEqual([chat.usage.prompt_tokens, chat.usage.completion_tokens], [ours.usage.input_tokens, ours.usage.output_tokens]);
  const counted = await client.responses.inputTokens.count({ model: 'demo', input: about('shapes-4.png') });
  assert.equal(counted.input_tokens, chat.usage.prompt_tokens);
});

test('instructions and system items make one system message, as in chat', async () => {
  const rendered = await client.post('/chat/completions/render', { body: { messages: [{ role: 'system', content: 'A\n\nB' }, { role: 'user', content: 'hi' }] } });
  const counted = await client.responses.inputTokens.count({ model: 'demo', instructions: 'A', input: [{ role: 'developer', content: 'B' }, { role: 'user', content: 'hi' }] });
  assert.equal(counted.input_tokens, rendered.prompt_tokens);
});

for (const choice of ['required', { type: 'function', name: 'note' }, { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'note' }] }])
  test(`tool_choice ${choice.type ?? choice}: a call, whole and streamed, and its result`, async () => {
    const more = { tools: [tool, { type: 'web_search' }], tool_choice: choice, parallel_tool_calls: false };
    const whole = await ask(more);
    const [call] = whole.output;
    assert.deepEqual([whole.output.length, call.type, call.name, call.status], [1, 'function_call', 'note', 'completed']);
    assert.ok(Number.isInteger(JSON.parse(call.arguments).words));
    const streamed = await client.responses.stream({ ...question, input: about('shapes-4.png'), ...more }).finalResponse();
    assert.equal(streamed.output[0].arguments, call.arguments);
    const result = { type: 'function_call_output', call_id: call.call_id, output: [text('done'), image('word-2.jpg')] };
    const next = await client.responses.create({ ...question, tools: [tool], previous_response_id: whole.id, input: [result] });
    const all = await client.responses.create({ ...question, tools: [tool], input: [...about('shapes-4.png'), call, result] });
    assert.equal(next.usage.input_tokens, all.usage.input_tokens);
    assert.equal(next.output_text, all.output_text);
  });

test('previous_response_id: the conversation goes on', async () => {
  const first = await ask({ instructions: 'Briefly.' });
  const again = { role: 'user', content: 'Describe this image.' };
  const second = await client.responses.create({ ...question, previous_response_id: first.id, input: 'Describe this image.' });
  const all = await client.responses.create({ ...question, input: [...about('shapes-4.png'), ...first.output, again] });
  assert.equal(second.previous_response_id, first.id);
  assert.deepEqual([second.usage.input_tokens, second.output_text], [all.usage.input_tokens, all.output_text]);
  const third = await client.responses.create({ ...question, previous_response_id: second.id, input: [again] });
  const referred = await client.responses.create({ ...question, input: [...about('shapes-4.png'), { type: 'item_reference', id: first.output[0].id }, again, { type: 'item_reference', id: second.output[0].id }, again] });
  assert.equal(third.usage.input_tokens, referred.usage.input_tokens);
});

test('retrieve, input items and delete, for the same key only; store false', async () => {
  const made = await ask({ metadata: { a: 'b' } });
  assert.deepEqual(await client.responses.retrieve(made.id).then(({ output_text, ...rest }) => rest), (({ output_text, ...rest }) => rest)(made));
  const items = [];
  for await (const item of client.responses.inputItems.list(made.id)) items.push(item);
  assert.deepEqual(items.map(({ type, role, content }) => [type, role, content.length]), [['message', 'user', 2]]);
  await isGone(other.responses.retrieve(made.id));
  await isGone(other.responses.delete(made.id));
  await assert.rejects(other.responses.create({ ...question, input: 'x', previous_response_id: made.id }), (e) => e instanceof BadRequestError && e.code === 'previous_response_not_found' && e.param === 'previous_response_id');
  await client.responses.delete(made.id);
  await isGone(client.responses.retrieve(made.id));
  const unkept = await ask({ store: false });
  assert.equal(unkept.store, false);
  await isGone(client.responses.retrieve(unkept.id));
  await isGone(client.responses.create({ ...question, input: [{ type: 'item_reference', id: unkept.output[0].id }] }));
});

test('an answer that is cut off is incomplete; logprobs; more than the context is clipped', async () => {
  const cut = await ask({ max_output_tokens: 2 });
  assert.deepEqual([cut.status, cut.incomplete_details.reason, cut.output[0].status], ['incomplete', 'max_output_tokens', 'incomplete']);
  const likely = await ask({ include: ['message.output_text.logprobs'], top_logprobs: 2, max_output_tokens: 100000 });
  assert.equal(likely.status, 'completed');
  const { logprobs } = likely.output[0].content[0];
  assert.equal(logprobs[0].top_logprobs.length, 2);
  assert.ok(likely.output_text.startsWith(logprobs[0].token));
});

test('errors have text codes', async () => {
  await assert.rejects(ask({ model: 'gpt-4o' }), (e) => e instanceof NotFoundError && e.code === 'model_not_found');
  await assert.rejects(ask({ input: 'word '.repeat(9000) }), (e) => e instanceof BadRequestError && e.code === 'context_length_exceeded');
  await assert.rejects(ask({ background: true }), (e) => e instanceof BadRequestError && e.code === 'unsupported_value' && e.param === 'background');
  await assert.rejects(ask({ input: [{ type: 'poem' }] }), (e) => e instanceof BadRequestError && e.code === null && e.param === 'input[0].type');
});

test('--responses-store 0 keeps nothing', async () => {
  const forgetful = await startServer('--served-model-name', 'demo', '--responses-store', '0');
  try {
    const its = new OpenAI({ baseURL: forgetful.url, apiKey: 'none', maxRetries: 0 }); // without /v1
    const made = await its.responses.create({ ...question, input: 'hi', max_output_tokens: 4 });
    assert.equal(made.store, false);
    await isGone(its.responses.retrieve(made.id));
  } finally {
    await forgetful.stop();
  }
});
