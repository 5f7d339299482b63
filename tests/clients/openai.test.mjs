// SPDX-License-Identifier: Apache-2.0
// The openai library against the server.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import OpenAI, {
  APIUserAbortError, AuthenticationError, BadRequestError, InternalServerError, NotFoundError,
} from 'openai';
import { LengthFinishReasonError } from 'openai/core/error';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { SLOW, root, startServer, until } from '../node/server.mjs';

const examples = `${root}/examples`;
const expected = JSON.parse(readFileSync(`${examples}/expected.json`));
const LONG = { ignore_eos: true, max_tokens: 3000 }; // an answer that does not end by itself
let server, client, model;
let slow, slowly; // another server and its client, for answers that are cancelled

const clientOf = ({ url }) => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });

before(async () => {
  server = await startServer('--served-model-name', 'demo', 'also-demo');
  slow = await startServer('--served-model-name', 'demo', ...SLOW);
  [client, slowly] = [server, slow].map(clientOf);
  model = 'demo';
});
after(() => Promise.all([server?.stop(), slow?.stop()]));

function image(name) {
  const type = name.endsWith('.jpg') ? 'jpeg' : 'png';
  return { type: 'image_url', image_url: { url: `data:image/${type};base64,${readFileSync(`${examples}/${name}`).toString('base64')}` } };
}

const says = (...parts) => [{ role: 'user', content: parts.map((part) => (typeof part === 'string' ? { type: 'text', text: part } : part)) }];
const describe = (name) => says(image(name), 'Describe this image.');
const ask = (more, by = client) => by.chat.completions.create({ model, temperature: 0, messages: describe('shapes-4.png'), ...more });
const idle = (of = slow) => until(async () => (await of.metric('vllm:num_requests_running')) + (await of.metric('vllm:num_requests_waiting')) === 0,
  'no request runs or waits');

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

/* Checks the error of a call: its class, status, param and message. */
async function refused(call, kind, { status, param, says: pattern }) {
  const error = await call.then(() => assert.fail('it was answered'), (thrown) => thrown);
  assert.ok(error instanceof kind, `${error.constructor.name} instead of ${kind.name}: ${error.message}`);
  assert.equal(error.status, status);
  if (param !== undefined) assert.equal(error.param, param);
  assert.match(error.message, pattern);
}

// ---- models ----

test('models.list: the served names, with max_model_len', async () => {
  const list = await client.models.list();
  assert.deepEqual(list.data.map((m) => m.id), ['demo', 'also-demo']);
  assert.ok(list.data[0].max_model_len >= 1024);
  assert.equal(list.data[0].object, 'model');
});

test('models.retrieve', async () => {
  assert.equal((await client.models.retrieve('also-demo')).id, 'also-demo');
  await refused(client.models.retrieve('nobody'), NotFoundError, { status: 404, says: /nobody/ });
});

// ---- answers ----

for (const name of ['shapes-4.png', 'word-2.jpg'])
  test(`chat: ${name} is described`, async () => {
    const answer = await ask({ messages: describe(name) });
    assert.equal(answer.choices[0].message.content, expected[name]);
    assert.equal(answer.choices[0].message.role, 'assistant');
    assert.equal(answer.choices[0].finish_reason, 'stop');
    assert.equal(answer.model, 'demo');
    assert.equal(answer.object, 'chat.completion');
    const { usage } = answer;
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
    assert.equal(usage.prompt_tokens_details.multimodal_tokens.image, usage.images[0].tokens);
    assert.ok(usage.images[0].used_width > 0 && usage.prompt_tokens > usage.images[0].tokens);
  });

test('chat: a second question about an image skips the vision encoder', async () => {
  await ask({ messages: describe('shapes-5.png') });
  const runs = await server.metric('eyelet_vision_encoder_runs_total');
  const { usage, choices } = await ask({ messages: says(image('shapes-5.png'), 'How many shapes are there?') });
  assert.match(choices[0].message.content, /5|five/i);
  assert.equal(usage.images[0].cached, true);
  assert.ok(usage.prompt_tokens_details.cached_tokens > 0);
  assert.equal(await server.metric('eyelet_vision_encoder_runs_total'), runs);
});

test('chat: detail low uses fewer tokens than high', async () => {
  const tokens = async (detail) => {
    const part = image('both-1.png');
    part.image_url.detail = detail;
    return (await ask({ messages: says(part, 'Describe this image.'), max_tokens: 1 })).usage.images[0];
  };
  const [low, high] = [await tokens('low'), await tokens('high')];
  assert.ok(low.tokens <= high.tokens);
  assert.deepEqual([low.width, low.height], [high.width, high.height]);
});

test('chat: several images, a system message and an earlier turn', async () => {
  const answer = await ask({
    messages: [
      { role: 'system', content: 'You look at images.' },
      ...describe('shapes-3.png'),
      { role: 'assistant', content: expected['shapes-3.png'] },
      ...says(image('word-2.jpg'), image('shapes-4.png'), 'Describe this image.'),
    ],
  });
  assert.equal(answer.usage.images.length, 3);
  assert.ok(answer.choices[0].message.content.length > 0);
});

test('chat: a stream has the text of the whole answer', async () => {
  const chunks = await collect(await ask({ stream: true, stream_options: { include_usage: true } }));
  assert.equal(chunks[0].choices[0].delta.role, 'assistant');
  assert.equal(chunks.map((c) => c.choices[0]?.delta.content || '').join(''), expected['shapes-4.png']);
  assert.deepEqual(chunks.flatMap((c) => c.choices.map((choice) => choice.finish_reason)).filter(Boolean), ['stop']);
  assert.deepEqual(chunks.at(-1).choices, []);
  const whole = await ask();
  assert.equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
  assert.equal(chunks.at(-1).usage.prompt_tokens, whole.usage.prompt_tokens);
  assert.equal(new Set(chunks.map((c) => c.id)).size, 1);
});

test("chat: the library's stream helper assembles the message", async () => {
  const runner = client.chat.completions.stream({ model, temperature: 0, messages: describe('shapes-4.png') });
  assert.equal(await runner.finalContent(), expected['shapes-4.png']);
});

test('chat: n answers, whole and streamed', async () => {
  const answer = await ask({ n: 3, temperature: 1, seed: 5 });
  assert.deepEqual(answer.choices.map((c) => c.index), [0, 1, 2]);
  const chunks = await collect(await ask({ n: 2, temperature: 0, stream: true }));
  for (const index of [0, 1])
    assert.equal(chunks.flatMap((c) => c.choices).filter((c) => c.index === index).map((c) => c.delta.content || '').join(''), expected['shapes-4.png']);
});

test('chat: a seed makes answers reproducible', async () => {
  const [a, b] = [await ask({ temperature: 1.5, seed: 7 }), await ask({ temperature: 1.5, seed: 7 })];
  assert.equal(a.choices[0].message.content, b.choices[0].message.content);
});

test('chat: max_tokens and max_completion_tokens end the answer with "length"', async () => {
  for (const limit of [{ max_tokens: 3 }, { max_completion_tokens: 3 }]) {
    const answer = await ask(limit);
    assert.equal(answer.choices[0].finish_reason, 'length');
    assert.equal(answer.usage.completion_tokens, 3);
  }
});

test('chat: a stop text ends the answer and is not part of it, also in streams', async () => {
  const whole = expected['shapes-4.png'];
  const stop = ' and a pink';
  const before = whole.slice(0, whole.indexOf(stop));
  const answer = await ask({ stop: ['never said', stop] });
  assert.equal(answer.choices[0].message.content, before);
  assert.equal(answer.choices[0].finish_reason, 'stop');
  const chunks = await collect(await ask({ stop, stream: true }));
  assert.equal(chunks.map((c) => c.choices[0]?.delta.content || '').join(''), before);
});

test('chat: logprobs with alternatives, whole and streamed', async () => {
  const { content } = (await ask({ logprobs: true, top_logprobs: 3 })).choices[0].logprobs;
  assert.ok(content.length > 5);
  for (const token of content) {
    assert.ok(token.logprob <= 0 && Number.isFinite(token.logprob));
    assert.equal(token.top_logprobs.length, 3);
    assert.equal(token.top_logprobs[0].token, token.token); // greedy
    assert.equal(Buffer.from(token.bytes).toString(), token.token);
  }
  const chunks = await collect(await ask({ logprobs: true, top_logprobs: 3, stream: true }));
  const streamed = chunks.flatMap((c) => c.choices[0]?.logprobs?.content || []);
  assert.deepEqual(streamed.map((t) => t.token), content.map((t) => t.token));
});

test('chat: logit_bias decides', async () => {
  const token = (await ask({ logprobs: true, top_logprobs: 2 })).choices[0].logprobs.content[0].top_logprobs[1].token;
  const ids = (await (await fetch(`${server.url}/tokenize`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ model, prompt: token }),
  })).json()).tokens;
  const answer = await ask({ logit_bias: { [ids[0]]: 100 }, max_tokens: 1 });
  assert.equal(answer.choices[0].message.content, token);
});

test('chat: a request with tools is answered; tool_choice none too', async () => {
  const tools = [{
    type: 'function',
    function: { name: 'get_weather', description: 'The weather of a place', parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] } },
  }];
  for (const tool_choice of ['auto', 'none']) {
    const { choices, usage } = await ask({ tools, tool_choice, messages: says('What is the weather in Paris?') });
    const { content, tool_calls } = choices[0].message;
    assert.ok(content !== null || tool_calls.length > 0);
    assert.ok(usage.completion_tokens > 0);
  }
  const turn = [
    ...says('What is the weather in Paris?'),
    { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"place": "Paris"}' } }] },
    { role: 'tool', tool_call_id: 'call_1', content: 'sunny' },
  ];
  assert.ok((await ask({ tools, messages: turn })).usage.prompt_tokens > 50);
});

// ---- structured output ----

const Shape = z.object({
  kind: z.enum(['circle', 'square', 'triangle']),
  filled: z.boolean(),
  place: z.object({ x: z.number().int().min(0).max(1000), y: z.number().int().min(0).max(1000) }),
  note: z.string().max(12).nullable(),
});
const ImageAnswer = z.object({ title: z.string().max(20), shapes: z.array(Shape).min(1).max(3) });
const image_format = zodResponseFormat(ImageAnswer, 'image');
const WILD = { temperature: 1.5, top_p: 1, top_k: 0, max_tokens: 600 };
const Weather = z.object({ place: z.string().max(16), unit: z.enum(['C', 'F']), days: z.number().int().min(1).max(9) });
const weather = zodFunction({ name: 'get_weather', parameters: Weather });
const ping = { type: 'function', function: { name: 'ping', strict: true, parameters: { type: 'object', properties: {}, additionalProperties: false } } };

test('parse: an answer with a zod schema, at any temperature', async () => {
  for (const more of [{ max_tokens: 600 }, ...Array.from({ length: 6 }, (_, seed) => ({ ...WILD, seed }))]) {
    const answer = await client.chat.completions.parse({ model, temperature: 0, messages: describe('shapes-4.png'), response_format: image_format, ...more });
    const { message, finish_reason } = answer.choices[0];
    assert.equal(finish_reason, 'stop');
    assert.deepEqual(ImageAnswer.parse(JSON.parse(message.content)), message.parsed);
  }
});

test('parse: the same streamed, with n and logprobs', async () => {
  const stream = client.chat.completions.stream({ model, messages: describe('shapes-4.png'), response_format: image_format, ...WILD, seed: 9, n: 2, logprobs: true });
  const { choices } = await stream.finalChatCompletion();
  assert.equal(choices.length, 2);
  for (const { message, finish_reason, logprobs } of choices) {
    assert.equal(finish_reason, 'stop');
    assert.ok(message.parsed.shapes.length >= 1);
    assert.ok(Buffer.from(logprobs.content.flatMap((token) => token.bytes)).toString().startsWith(message.content)); // a character may be several tokens
  }
});

test('parse: an answer that is cut off is an error', async () => {
  await assert.rejects(client.chat.completions.parse({ model, messages: says('Hello'), response_format: image_format, max_tokens: 3 }), LengthFinishReasonError);
});

test('json_object is an object', async () => {
  const { choices } = await ask({ response_format: { type: 'json_object' }, max_tokens: 600, stop: ['}'] });
  assert.match(choices[0].message.content, /^\{/);
});

test('structured_outputs and its older names', async () => {
  const say = async (more) => (await ask({ ...WILD, ...more })).choices[0].message.content;
  for (let seed = 0; seed < 5; seed++) {
    assert.match(await say({ structured_outputs: { regex: '[a-c]{2}-\\d{1,3}' }, seed }), /^[a-c]{2}-\d{1,3}$/);
    assert.match(await say({ guided_regex: 'x|yy', seed }), /^(x|yy)$/);
    assert.ok(['yes', 'no'].includes(await say({ structured_outputs: { choice: ['yes', 'no'] }, seed })));
    assert.ok(['rouge', 'grün'].includes(await say({ guided_choice: ['rouge', 'grün'], seed })));
    Shape.parse(JSON.parse(await say({ structured_outputs: { json: z.toJSONSchema(Shape) }, seed })));
    Shape.parse(JSON.parse(await say({ guided_json: JSON.stringify(z.toJSONSchema(Shape)), seed })));
    const { choices } = await client.completions.create({ model, prompt: 'Answer: ', ...WILD, structured_outputs: { choice: ['yes', 'no'] }, seed });
    assert.ok(['yes', 'no'].includes(choices[0].text));
  }
});

test('tool_choice required: a call whose arguments fit', async () => {
  for (let seed = 0; seed < 6; seed++) {
    const { choices } = await client.chat.completions.parse({
      model, messages: says('What is the weather in Paris?'), tools: [weather, ping], tool_choice: 'required', parallel_tool_calls: seed % 2 === 0, ...WILD, seed,
    });
    const { message, finish_reason } = choices[0];
    assert.equal(finish_reason, 'tool_calls');
    assert.ok(!message.content && message.tool_calls.length >= 1);
    if (seed % 2) assert.equal(message.tool_calls.length, 1);
    for (const call of message.tool_calls) {
      assert.ok(['get_weather', 'ping'].includes(call.function.name));
      if (call.function.name === 'get_weather') assert.deepEqual(Weather.parse(JSON.parse(call.function.arguments)), call.function.parsed_arguments);
      else assert.equal(typeof JSON.parse(call.function.arguments), 'object');
    }
  }
});

test('tool_choice that names a function, streamed', async () => {
  for (let seed = 0; seed < 4; seed++) {
    const stream = client.chat.completions.stream({
      model, messages: says('What is the weather in Paris?'), tools: [ping, weather], tool_choice: { type: 'function', function: { name: 'get_weather' } }, ...WILD, seed,
    });
    const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0];
    assert.equal(finish_reason, 'tool_calls');
    assert.equal(message.tool_calls.length, 1);
    assert.equal(message.tool_calls[0].function.name, 'get_weather');
    Weather.parse(message.tool_calls[0].function.parsed_arguments);
  }
});

test('completions: text is continued, whole, streamed and with echo', async () => {
  const prompt = 'A red circle and a';
  const whole = await client.completions.create({ model, prompt, max_tokens: 8, temperature: 0 });
  assert.equal(whole.object, 'text_completion');
  const text = whole.choices[0].text;
  const chunks = await collect(await client.completions.create({ model, prompt, max_tokens: 8, temperature: 0, stream: true }));
  assert.equal(chunks.map((c) => c.choices[0]?.text || '').join(''), text);
  const echoed = await client.completions.create({ model, prompt, max_tokens: 8, temperature: 0, echo: true });
  assert.equal(echoed.choices[0].text, prompt + text);
  const two = await client.completions.create({ model, prompt: [prompt, 'The word'], max_tokens: 4, temperature: 0 });
  assert.equal(two.choices.length, 2);
});

test('concurrent requests: each answer equals the one given alone', async () => {
  const names = Object.keys(expected).filter((name) => name.startsWith('shapes'));
  const alone = [];
  for (const name of names) alone.push((await ask({ messages: describe(name) })).choices[0].message.content);
  const together = await Promise.all([...names, ...names].map((name) => ask({ messages: describe(name) })));
  assert.deepEqual(together.map((a) => a.choices[0].message.content), [...alone, ...alone]);
});

// ---- cancelling ----

test('abort during a stream: the server stops generating', async () => {
  const aborted = await slow.metric('vllm:request_success_total', 'finished_reason="abort"');
  const stream = await ask({ ...LONG, stream: true }, slowly);
  let pieces = 0;
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content && ++pieces === 3) break; // leaving the loop aborts the request
  assert.equal(pieces, 3);
  await idle();
  assert.equal(await slow.metric('vllm:request_success_total', 'finished_reason="abort"'), aborted + 1);
});

test('abort by a signal, before the first word', async () => {
  const stop = new AbortController();
  const call = slowly.chat.completions.create({ model, messages: says('Hello'), ...LONG }, { signal: stop.signal });
  await until(async () => (await slow.metric('vllm:num_requests_running')) > 0, 'the request runs');
  stop.abort();
  await assert.rejects(call, APIUserAbortError);
  await idle();
});

test('a dozen concurrent aborts leak nothing', async () => {
  const used = await slow.metric('eyelet_kv_blocks_used');
  await Promise.all(Array.from({ length: 12 }, async () => {
    const stream = await ask({ ...LONG, stream: true }, slowly);
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) stream.controller.abort();
  }));
  await idle();
  assert.equal(await slow.metric('eyelet_kv_blocks_used'), used);
  assert.equal((await ask({}, slowly)).choices[0].message.content, expected['shapes-4.png']);
});

// ---- errors ----

const errors = [
  ['an unknown model', { model: 'gpt-5' }, NotFoundError, 404, 'model', /gpt-5.*does not exist/],
  ['a temperature out of range', { temperature: 3 }, BadRequestError, 400, 'temperature', /temperature/],
  ['a top_p out of range', { top_p: 1.5 }, BadRequestError, 400, 'top_p', /top_p/],
  ['a type that is wrong', { max_tokens: 'many' }, BadRequestError, 400, 'max_tokens', /max_tokens/],
  ['n out of range', { n: 1000000 }, BadRequestError, 400, 'n', /n\b/],
  ['top_logprobs out of range', { logprobs: true, top_logprobs: 21 }, BadRequestError, 400, 'top_logprobs', /20/],
  ['no messages', { messages: [] }, BadRequestError, 400, 'messages', /messages/],
  ['an unknown role', { messages: [{ role: 'wizard', content: 'x' }] }, BadRequestError, 400, 'messages[0].role', /wizard/],
  ['a text as an image', { messages: says({ type: 'image_url', image_url: { url: 'data:image/png;base64,bm90IGEgcGljdHVyZQ==' } }, 'x') },
    BadRequestError, 400, 'messages[0].content[0].image_url.url', /image/i],
  ['invalid base64', { messages: says({ type: 'image_url', image_url: { url: 'data:image/png;base64,####' } }, 'x') },
    BadRequestError, 400, 'messages[0].content[0].image_url.url', /base64/],
  ['an image from the network', { messages: says({ type: 'image_url', image_url: { url: 'http://example.com/a.png' } }, 'x') },
    BadRequestError, 400, 'messages[0].content[0].image_url.url', /allowed-media-domains/],
  ['an image from a file', { messages: says({ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }, 'x') },
    BadRequestError, 400, 'messages[0].content[0].image_url.url', /allowed-local-media-path/],
  ['too many images', { messages: says(...Array.from({ length: 17 }, () => image('word-2.jpg')), 'x') }, BadRequestError, 400, undefined, /16 image/],
  ['a prompt that is too long', { messages: says('a circle '.repeat(20000)) }, BadRequestError, 400, undefined, /maximum context length is \d+ tokens/],
  ['a video', { messages: says({ type: 'video_url', video_url: { url: 'data:video/mp4;base64,AAAA' } }) }, BadRequestError, 400, undefined, /video_url/],
  ['tool_choice required without tools', { tool_choice: 'required' }, BadRequestError, 400, 'tool_choice', /tools/],
  ['an unknown tool', { tool_choice: { type: 'function', function: { name: 'g' } }, tools: [{ type: 'function', function: { name: 'f' } }] },
    BadRequestError, 400, 'tool_choice.function.name', /does not match any/],
  ['a tool whose schema says what is not supported', { tool_choice: 'required', tools: [{ type: 'function', function: { name: 'f', parameters: { not: {} } } }] },
    BadRequestError, 400, 'tools[0].function.parameters', /"not" is not supported/],
  ['a schema that says what is not supported', { response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { properties: { a: { contains: {} } } } } } },
    BadRequestError, 400, 'response_format.json_schema.schema', /#\/properties\/a: the keyword "contains"/],
  ['two forms at once', { response_format: { type: 'json_object' }, guided_choice: ['a'] }, BadRequestError, 400, 'guided_choice', /response_format and guided_choice/],
  ['a grammar', { structured_outputs: { grammar: 'root ::= "a"' } }, BadRequestError, 400, 'structured_outputs.grammar', /not supported/],
  ['stream_options without stream', { stream_options: { include_usage: true } }, BadRequestError, 400, 'stream_options', /stream/],
];
for (const [what, request, kind, status, param, pattern] of errors)
  test(`refused: ${what}`, () => refused(ask(request), kind, { status, param, says: pattern }));

test('refused: vision tokens in a completion', () =>
  refused(client.completions.create({ model, prompt: '<|vision_start|><|image_pad|><|vision_end|>' }), BadRequestError, { status: 400, says: /vision|image/i }));

test('refused: an unknown path', () => refused(client.moderations.create({ input: 'x' }), NotFoundError, { status: 404, says: /moderations|404/ }));

test('after all that, the server still works', async () => {
  await Promise.all([idle(server), idle(slow)]);
  assert.equal((await ask()).choices[0].message.content, expected['shapes-4.png']);
  for (const one of [server, slow]) assert.equal(await one.metric('vllm:request_success_total', 'finished_reason="error"'), 0);
});

// ---- keys and strictness, with separate servers ----

test('a key is required, checked and sufficient', async (t) => {
  const locked = await startServer('--api-key', 'sesame', '--strict');
  t.after(() => locked.stop());
  const by = (apiKey) => new OpenAI({ baseURL: `${locked.url}/v1`, apiKey, maxRetries: 0 });
  await refused(by('wrong').models.list(), AuthenticationError, { status: 401, says: /key/i });
  const { data } = await by('sesame').models.list();
  await refused(by('sesame').chat.completions.create({ model: data[0].id, messages: says('Hello'), temprature: 1 }), BadRequestError,
    { status: 400, says: /temprature/ });
  assert.equal((await fetch(`${locked.url}/health`)).status, 200);
  assert.equal((await fetch(`${locked.url}/`)).status, 200);
  assert.equal((await fetch(`${locked.url}/metrics`)).status, 401);
});

test('a full queue is an error that the library would retry', async (t) => {
  const narrow = await startServer('--max-num-seqs', '1', '--max-num-queued-reqs', '1', ...SLOW);
  t.after(() => narrow.stop());
  const by = clientOf(narrow);
  const id = (await by.models.list()).data[0].id;
  const long = () => by.chat.completions.create({ model: id, messages: says('Hello'), ...LONG, stream: true });
  const running = await long();
  await until(async () => (await narrow.metric('vllm:num_requests_running')) === 1, 'the first runs');
  const stop = new AbortController();
  const waiting = by.chat.completions.create({ model: id, messages: says('Hello') }, { signal: stop.signal }).catch((error) => error);
  await until(async () => (await narrow.metric('vllm:num_requests_waiting')) === 1, 'the second waits');
  const error = await by.chat.completions.create({ model: id, messages: says('Hello') }).then(() => null, (thrown) => thrown);
  assert.ok(error instanceof InternalServerError, String(error));
  assert.equal(error.status, 503);
  assert.ok(Number(error.headers.get('retry-after')) > 0);
  running.controller.abort();
  assert.equal((await waiting).choices?.length, 1); // its turn has come
});
