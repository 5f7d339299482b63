// SPDX-License-Identifier: Apache-2.0
// /openapi.json against the server and the documents: its schemas compile, it describes every request of docs/guides/*.md with all its
// fields, and the server's answers match it. tests/server/test_openapi.c checks that it has every route.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { after, before, test } from 'node:test';

import Ajv from 'ajv/dist/2020.js';
import { root, startServer } from '../node/server.mjs';

let server, document, ajv;

before(async () => {
  server = await startServer('--served-model-name', 'demo');
  const reply = await fetch(`${server.url}/openapi.json`);
  assert.equal(reply.status, 200);
  assert.equal(reply.headers.get('content-type'), 'application/json');
  document = await reply.json();
  ajv = new Ajv({ strict: false });
  ajv.addSchema(document, 'openapi');
});
after(() => server?.stop());

const operation = (method, path) => {
  let item = document.paths[path];
  if (item?.$ref) item = document.paths[item.$ref.slice('#/paths/'.length).replaceAll('~1', '/').replaceAll('~0', '~')];
  assert.ok(item?.[method], `${method} ${path} is not described`);
  return item[method];
};
/* Schemas refer to one another by #/components/…, which is within the document. */
const absolute = (schema) => JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"openapi#/'));
const requestSchema = (path) => absolute(operation('post', path).requestBody.content['application/json'].schema);
const replySchema = (method, path) => absolute(Object.entries(operation(method, path).responses)[0][1].content['application/json'].schema);

/* Every top-level field of the request must be described. */
function checkRequest(path, body, where) {
  const schema = requestSchema(path), name = /schemas\/(\w+)$/.exec(schema.$ref ?? '')?.[1];
  const known = name ? document.components.schemas[name].properties : schema.properties;
  if (!ajv.validate(schema, body)) assert.fail(`${where}: ${path}: ${ajv.errorsText()}\n${JSON.stringify(body).slice(0, 500)}`);
  for (const field of Object.keys(body)) assert.ok(!known || field in known, `${where}: ${path}: ${field} is not described`);
}

test('every schema compiles', () => {
  for (const name of Object.keys(document.components.schemas)) ajv.compile({ $ref: `openapi#/components/schemas/${name}` });
  for (const body of [{}, { messages: 'hello' }, { messages: [{ role: 'user', content: [{ text: 1 }] }] }, { messages: [{ role: 'user', content: 'x' }], n: 'two' }])
    assert.ok(!ajv.validate(requestSchema('/v1/chat/completions'), body), JSON.stringify(body));
});

/* [path, body] of each request that a shell block sends with curl: -d '…', or -d @FILE from an earlier here-document. */
function* shellRequests(text) {
  const files = new Map();
  for (const [, file, body] of text.matchAll(/cat >\s?(\S+) <<'?END'?\n([^]*?)\nEND/g)) files.set(file, body);
  for (const [call] of text.replaceAll(/\\\n\s*/g, '').matchAll(/curl [^\n]*/g)) {
    const path = /localhost:\d+(\/[^\s'"|)]*)/.exec(call)?.[1];
    const body = / -d '([^']*)'/.exec(call)?.[1] ?? files.get(/ -d @([^\s]+)/.exec(call)?.[1]);
    if (path && body) yield [path, body.replaceAll(/\$\([^()]*(\([^()]*\))?[^()]*\)/g, 'AAAA')];
  }
}

test('the requests of the documents match it', () => {
  let requests = 0;
  for (const name of ['../README.md', ...readdirSync(`${root}/docs/guides`).filter((file) => file.endsWith('.md')).map((file) => `guides/${file}`)]) {
    const text = readFileSync(`${root}/docs/${name}`, 'utf8');
    for (const [, block] of text.matchAll(/\n```sh[^\n]*\n([^]*?)\n```/g))
      for (const [path, body] of shellRequests(block)) {
        let parsed;
        try { parsed = JSON.parse(body); } catch { assert.fail(`${name}: the body for ${path} is no JSON: ${body.slice(0, 200)}`); }
        if (Array.isArray(parsed.messages) && !parsed.messages.length) continue; // api.md shows the error of such a request
        checkRequest(path, parsed, name);
        requests++;
      }
  }
  assert.ok(requests >= 8, `only ${requests} requests were found`);
});

const hello = [{ role: 'user', content: 'hello' }];
const cases = [
  ['/v1/chat/completions', { model: 'demo', messages: hello, max_tokens: 3, temperature: 0, logprobs: true, top_logprobs: 2 }],
  ['/v1/chat/completions', { messages: [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }], max_completion_tokens: 3, stop: 'x', seed: 1,
    response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object', properties: { a: { type: 'boolean' } } } } } }],
  ['/chat/completions', { messages: hello, max_tokens: 1, structured_outputs: { choice: ['yes', 'no'] } }],
  ['/v1/chat/completions/render', { messages: hello }],
  ['/v1/chat/completions/input_tokens', { messages: hello }],
  ['/v1/completions', { prompt: 'hello', max_tokens: 2, logprobs: 1 }],
  ['/v1/responses', { input: 'hello', max_output_tokens: 4, store: false }],
  ['/v1/responses/input_tokens', { input: 'hello' }],
  ['/v1/messages', { model: 'demo', max_tokens: 3, messages: hello, system: 'Be brief.' }],
  ['/v1/messages/count_tokens', { model: 'demo', messages: hello }],
  ['/tokenize', { prompt: 'hello', return_token_strs: true }],
  ['/detokenize', { tokens: [71, 528] }],
  ['/apply-template', { messages: hello }],
  ['/completion', { prompt: 'hello', n_predict: 2, temperature: 0 }],
  ['/api/chat', { model: 'demo', stream: false, messages: hello, options: { num_predict: 2, temperature: 0 } }],
  ['/api/generate', { model: 'demo', stream: false, prompt: 'hello', options: { num_predict: 2 } }],
  ['/api/show', { model: 'demo' }],
];
for (const [path, body] of cases)
  test(`POST ${path}: the answer matches it`, async () => {
    checkRequest(path, body, 'this test');
    const response = await fetch(server.url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    const reply = await response.json();
    assert.equal(response.status, 200, JSON.stringify(reply));
    assert.ok(ajv.validate(replySchema('post', path), reply), `${ajv.errorsText()}\n${JSON.stringify(reply)}`);
  });

for (const path of ['/v1/models', '/models', '/v1/models/demo', '/props', '/slots', '/lora-adapters', '/api/version', '/api/tags', '/api/ps', '/api/status', '/health', '/ping', '/ready',
  '/version', '/eyelet/plan', '/openapi.json'])
  test(`GET ${path}: the answer matches it`, async () => {
    const response = await fetch(server.url + path);
    assert.equal(response.status, 200);
    const described = path === '/v1/models/demo' ? '/v1/models/{model}' : path, reply = await response.json();
    assert.ok(ajv.validate(replySchema('get', described), reply), `${ajv.errorsText()}\n${JSON.stringify(reply).slice(0, 1000)}`);
  });

const numbers = { temperature: [-0.1, 0, 2, 2.1], top_p: [-0.1, 1, 1.1], top_k: [-2, -1], min_p: [1, 1.1], repetition_penalty: [0, 0.1, 100, 101], presence_penalty: [-2.1, 2], frequency_penalty: [-2, 2.1] };
for (const [path, body, more] of [
  ['/v1/chat/completions', { messages: hello, max_tokens: 1 }, { max_tokens: [-2, -1, 0, 1], max_completion_tokens: [-1, 0, 1], n: [0, 1] }],
  ['/v1/completions', { prompt: 'hello', max_tokens: 1 }, { max_tokens: [-1, 1], n: [0, 1] }],
  ['/v1/responses', { input: 'hello', max_output_tokens: 1, store: false }, { max_output_tokens: [0, 1] }],
])
  test(`POST ${path}: numbers have the limits that it describes`, async () => {
    for (const [field, values] of Object.entries({ ...numbers, ...more }))
      for (const value of values) {
        const request = { ...body, [field]: value };
        const response = await fetch(server.url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(request) });
        assert.equal(ajv.validate(requestSchema(path), request), response.status === 200, `${field} ${value}: ${await response.text()}`);
      }
  });

test('errors match it, in each dialect', async () => {
  for (const [path, body] of [['/v1/chat/completions', { messages: [] }], ['/v1/messages', {}], ['/api/chat', {}], ['/completion', {}], ['/v1/responses', {}], ['/tokenize', {}]]) {
    const response = await fetch(server.url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    const reply = await response.json(), schema = absolute(operation('post', path).responses.default.content['application/json'].schema);
    assert.equal(response.status, 400, path);
    assert.ok(ajv.validate(schema, reply), `${path}: ${ajv.errorsText()}\n${JSON.stringify(reply)}`);
  }
});

test('unsupported routes answer with the described status', async () => {
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, described] of Object.entries(methods)) {
      const status = Number(Object.keys(described.responses ?? { 200: 0 })[0]);
      if (status === 200 || !described.summary) continue;
      const type = Object.keys(described.requestBody?.content ?? { 'application/json': 0 })[0];
      const response = await fetch(server.url + path.replace(/\{.*\}/, path.includes('responses') ? 'x/cancel' : 'x'), { method, headers: { 'Content-Type': type }, body: '{"model": "demo"}' });
      assert.equal(response.status, status, `${method} ${path}: ${await response.text()}`);
    }
});
