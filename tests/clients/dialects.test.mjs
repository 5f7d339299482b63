// SPDX-License-Identifier: Apache-2.0
// The same greedy question in all dialects, whole and streamed, gives the same text and token counts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { root, startServer } from '../node/server.mjs';

const examples = `${root}/examples`;
const expected = JSON.parse(readFileSync(`${examples}/expected.json`));
const model = 'demo';
let server;

before(async () => {
  server = await startServer('--served-model-name', model);
});
after(() => server?.stop());

const post = async (path, body) => {
  const reply = await fetch(server.url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  assert.equal(reply.status, 200, `${path}: ${await reply.clone().text()}`);
  return reply;
};
const events = async (reply) => (await reply.text()).split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
const lines = async (reply) => (await reply.text()).trim().split('\n').map((line) => JSON.parse(line));
const joined = (pieces, text) => pieces.map((piece) => text(piece) ?? '').join('');

/* Each returns {text, prompt, answer}: the text and the token counts of prompt and answer. */
const dialects = {
  'chat/completions': (data, url, ask) => {
    const body = { model, temperature: 0, messages: [{ role: 'system', content: 'S' }, { role: 'user', content: [{ type: 'image_url', image_url: { url } }, { type: 'text', text: ask }] }] };
    const counts = (usage, text) => ({ text, prompt: usage.prompt_tokens, answer: usage.completion_tokens });
    return {
      whole: async () => { const r = await (await post('/v1/chat/completions', body)).json(); return counts(r.usage, r.choices[0].message.content); },
      stream: async () => {
        const all = await events(await post('/v1/chat/completions', { ...body, stream: true, stream_options: { include_usage: true } }));
        return counts(all.at(-1).usage, joined(all, (piece) => piece.choices[0]?.delta.content));
      },
    };
  },
  'api/chat': (data, url, ask) => {
    const body = { model, options: { temperature: 0 }, messages: [{ role: 'system', content: 'S' }, { role: 'user', content: ask, images: [data] }] };
    const counts = (last, text) => ({ text, prompt: last.prompt_eval_count, answer: last.eval_count });
    return {
      whole: async () => { const r = await (await post('/api/chat', { ...body, stream: false })).json(); return counts(r, r.message.content); },
      stream: async () => { const all = await lines(await post('/api/chat', body)); return counts(all.at(-1), joined(all, (piece) => piece.message.content)); },
    };
  },
  'api/generate': (data, url, ask) => {
    const body = { model, options: { temperature: 0 }, system: 'S', prompt: ask, images: [data] };
    const counts = (last, text) => ({ text, prompt: last.prompt_eval_count, answer: last.eval_count });
    return {
      whole: async () => { const r = await (await post('/api/generate', { ...body, stream: false })).json(); return counts(r, r.response); },
      stream: async () => { const all = await lines(await post('/api/generate', body)); return counts(all.at(-1), joined(all, (piece) => piece.response)); },
    };
  },
  messages: (data, url, ask) => {
    const body = { model, max_tokens: 500, temperature: 0, system: 'S', messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }, { type: 'text', text: ask }] }] };
    const counts = (usage, text) => ({ text, prompt: usage.input_tokens + usage.cache_read_input_tokens, answer: usage.output_tokens });
    return {
      whole: async () => { const r = await (await post('/v1/messages', body)).json(); return counts(r.usage, r.content[0].text); },
      stream: async () => {
        const all = await events(await post('/v1/messages', { ...body, stream: true }));
        return counts(all.find(({ type }) => type === 'message_delta').usage, joined(all, (event) => event.delta?.text));
      },
      /* counts the prompt's tokens without an answer */
      count: async () => (await (await post('/v1/messages/count_tokens', body)).json()).input_tokens,
    };
  },
  responses: (data, url, ask) => {
    const body = { model, temperature: 0, store: false, instructions: 'S', input: [{ role: 'user', content: [{ type: 'input_image', image_url: url }, { type: 'input_text', text: ask }] }] };
    const counts = ({ usage, output }) => ({ text: output[0].content[0].text, prompt: usage.input_tokens, answer: usage.output_tokens });
    return {
      whole: async () => counts(await (await post('/v1/responses', body)).json()),
      stream: async () => {
        const all = await events(await post('/v1/responses', { ...body, stream: true }));
        const told = counts(all.at(-1).response);
        assert.equal(joined(all, (event) => event.type === 'response.output_text.delta' && event.delta || ''), told.text);
        return told;
      },
    };
  },
};

for (const name of ['shapes-4.png', 'word-2.jpg'])
  test(`greedy, ${name}: one text and one count in all dialects, whole and streamed`, async () => {
    const data = readFileSync(`${examples}/${name}`).toString('base64');
    const seen = {};
    for (const [dialect, make] of Object.entries(dialects)) {
      const { whole, stream, count } = make(data, `data:image/png;base64,${data}`, 'Describe this image.');
      seen[dialect] = await whole();
      seen[`${dialect}, streamed`] = await stream();
      if (count) assert.equal(await count(), seen[dialect].prompt);
    }
    const wanted = seen['chat/completions'];
    assert.ok(wanted.text.length > 3 && wanted.prompt > 10 && wanted.answer > 2);
    for (const [dialect, got] of Object.entries(seen)) assert.deepEqual(got, wanted, dialect);
  });

test('greedy, a raw prompt: one text and one count in completions, Ollama and llama.cpp', async () => {
  const prompt = 'A red';
  const openai = await (await post('/v1/completions', { model, prompt, temperature: 0, max_tokens: 8 })).json();
  const ollama = await (await post('/api/generate', { model, prompt, raw: true, stream: false, options: { temperature: 0, num_predict: 8 } })).json();
  const llama = await (await post('/completion', { prompt, temperature: 0, n_predict: 8 })).json();
  const wanted = [openai.choices[0].text, openai.usage.prompt_tokens, openai.usage.completion_tokens];
  assert.deepEqual([ollama.response, ollama.prompt_eval_count, ollama.eval_count], wanted);
  assert.deepEqual([llama.content, llama.tokens_evaluated, llama.tokens_predicted], wanted);
});
