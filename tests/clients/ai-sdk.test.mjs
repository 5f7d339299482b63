// SPDX-License-Identifier: Apache-2.0
// The AI SDK (ai with @ai-sdk/openai-compatible) against the server.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateObject, generateText, jsonSchema, streamObject, streamText, tool } from 'ai';
import { z } from 'zod';
import { SLOW, root, startServer, until } from '../node/server.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const examples = `${root}/examples`;
const expected = JSON.parse(readFileSync(`${examples}/expected.json`));
let server, provider, model;

before(async () => {
  server = await startServer('--served-model-name', 'demo');
  provider = createOpenAICompatible({ name: 'eyelet', baseURL: `${server.url}/v1`, includeUsage: true });
  model = provider('demo');
});
after(() => server?.stop());

const about = (name, text = 'Describe this image.') => [
  { role: 'user', content: [{ type: 'image', image: readFileSync(`${examples}/${name}`) }, { type: 'text', text }] },
];
const common = () => ({ model, temperature: 0, maxRetries: 0 });

test('generateText about an image, with usage', async () => {
  const { text, finishReason, usage } = await generateText({ ...common(), messages: about('shapes-4.png') });
  assert.equal(text, expected['shapes-4.png']);
  assert.equal(finishReason, 'stop');
  assert.equal(usage.totalTokens, usage.inputTokens + usage.outputTokens);
  assert.ok(usage.outputTokens > 5);
});

test('streamText about an image, with usage', async () => {
  const result = streamText({ ...common(), messages: about('shapes-4.png') });
  let text = '';
  for await (const piece of result.textStream) text += piece; // a piece may have several tokens
  assert.equal(text, expected['shapes-4.png']);
  assert.equal(await result.finishReason, 'stop');
  assert.ok((await result.usage).outputTokens > 5);
});

test('usage counts the cached tokens of a second question', async () => {
  await generateText({ ...common(), messages: about('shapes-5.png') });
  const { usage } = await generateText({ ...common(), messages: about('shapes-5.png', 'How many shapes are there?') });
  assert.ok(usage.inputTokenDetails.cacheReadTokens > 0);
});

test('settings arrive: maxOutputTokens, stopSequences, seed, penalties', async () => {
  const short = await generateText({ ...common(), messages: about('shapes-4.png'), maxOutputTokens: 3 });
  assert.equal(short.finishReason, 'length');
  assert.equal(short.usage.outputTokens, 3);
  const stopped = await generateText({ ...common(), messages: about('shapes-4.png'), stopSequences: [' and'] });
  assert.equal(stopped.text, expected['shapes-4.png'].split(' and')[0]);
  const drawn = () => generateText({ ...common(), temperature: 1.2, topP: 0.9, presencePenalty: 0.5, frequencyPenalty: 0.5, seed: 3, prompt: 'Hello' });
  assert.equal((await drawn()).text, (await drawn()).text);
});

test('a request with tools is answered', async () => {
  const weather = tool({
    description: 'The weather of a place',
    inputSchema: jsonSchema({ type: 'object', properties: { place: { type: 'string' } }, required: ['place'] }),
  });
  const { finishReason, usage } = await generateText({ ...common(), tools: { weather }, prompt: 'What is the weather in Paris?', maxOutputTokens: 100 });
  assert.ok(['stop', 'tool-calls', 'length'].includes(finishReason), finishReason);
  assert.ok(usage.outputTokens > 0);
});

// ---- structured output ----

const Shape = z.object({
  kind: z.enum(['circle', 'square', 'triangle']),
  filled: z.boolean(),
  place: z.object({ x: z.number().int().min(0).max(1000), y: z.number().int().min(0).max(1000) }),
  note: z.string().max(12).optional(),
});
const strict = () => ({ ...common(), model: createOpenAICompatible({ name: 'eyelet', baseURL: `${server.url}/v1`, supportsStructuredOutputs: true })('demo') });
const wild = (seed) => ({ ...strict(), temperature: 1.5, topP: 1, seed, maxOutputTokens: 600, messages: about('shapes-4.png') });

test('generateObject by a schema, at any temperature', async () => {
  for (const settings of [{ ...strict(), messages: about('shapes-4.png') }, wild(1), wild(2), wild(3)]) {
    const { object, finishReason, warnings } = await generateObject({ ...settings, schema: Shape });
    assert.equal(finishReason, 'stop');
    assert.deepEqual(warnings ?? [], []);
    assert.deepEqual(Shape.parse(object), object);
  }
});

test('generateObject: arrays and choices', async () => {
  const list = await generateObject({ ...wild(4), output: 'array', schema: z.object({ n: z.number().int().min(0).max(9) }), maxOutputTokens: 2000 }).catch((error) => error);
  if (list.object) for (const item of list.object) assert.ok(Number.isInteger(item.n) && item.n >= 0 && item.n <= 9);
  else assert.equal(list.finishReason, 'length'); // the schema does not limit the number of items
  const { object } = await generateObject({ ...wild(5), output: 'enum', enum: ['red', 'green', 'blue'] });
  assert.ok(['red', 'green', 'blue'].includes(object));
});

test('streamObject: partial objects, then a valid one', async () => {
  const result = streamObject({ ...wild(6), schema: Shape });
  for await (const partial of result.partialObjectStream) assert.equal(typeof partial, 'object');
  Shape.parse(await result.object);
});

test('toolChoice required and a named tool: arguments that fit', async () => {
  const inputSchema = z.object({ place: z.string().max(16), unit: z.enum(['C', 'F']) });
  const tools = { weather: tool({ description: 'The weather of a place', inputSchema }), ping: tool({ inputSchema: z.object({}) }) };
  for (const toolChoice of ['required', { type: 'tool', toolName: 'weather' }]) {
    const { toolCalls, finishReason } = await generateText({ ...wild(7), messages: undefined, prompt: 'What is the weather in Paris?', tools, toolChoice });
    assert.equal(finishReason, 'tool-calls');
    assert.ok(toolCalls.length >= 1 && toolCalls.every((call) => !call.invalid));
    if (toolChoice !== 'required') inputSchema.parse(toolCalls[0].input);
  }
});

test('abort during a stream: the server stops generating', async (t) => {
  const slow = await startServer('--served-model-name', 'demo', ...SLOW);
  t.after(() => slow.stop());
  const slowly = createOpenAICompatible({ name: 'eyelet', baseURL: `${slow.url}/v1` });
  const stop = new AbortController();
  const options = { providerOptions: { eyelet: { ignore_eos: true } }, maxOutputTokens: 3000, abortSignal: stop.signal };
  const result = streamText({ ...common(), model: slowly('demo'), ...options, prompt: 'Hello', onError: () => {} });
  let pieces = 0;
  for await (const part of result.fullStream) {
    if (part.type === 'text-delta' && ++pieces === 3) stop.abort();
    if (part.type === 'abort') break;
  }
  assert.ok(pieces >= 3);
  await until(async () => (await slow.metric('vllm:num_requests_running')) === 0, 'no request runs');
  assert.ok((await slow.metric('vllm:request_success_total', 'finished_reason="abort"')) >= 1);
});

test('errors are APICallError with the status and message of the server', async () => {
  const fails = async (call, status, pattern) => {
    const error = await call.then(() => assert.fail('it was answered'), (thrown) => thrown);
    assert.ok(APICallError.isInstance(error), String(error));
    assert.equal(error.statusCode, status);
    assert.match(error.message, pattern);
  };
  await fails(generateText({ ...common(), model: provider('gpt-5'), prompt: 'Hello' }), 404, /gpt-5.*does not exist/);
  await fails(generateText({ ...common(), temperature: 9, prompt: 'Hello' }), 400, /temperature/);
  const broken = [{ role: 'user', content: [{ type: 'file', mediaType: 'image/png', data: Buffer.from('not an image') }, { type: 'text', text: 'x' }] }];
  await fails(generateText({ ...common(), messages: broken }), 400, /image/i);
  const nobody = createOpenAICompatible({ name: 'eyelet', baseURL: 'http://127.0.0.1:1/v1' });
  const error = await generateText({ ...common(), model: nobody('demo'), prompt: 'Hello' }).then(() => null, (thrown) => thrown);
  assert.ok(APICallError.isInstance(error) && error.isRetryable);
});
