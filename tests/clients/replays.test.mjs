// SPDX-License-Identifier: Apache-2.0
// Replays requests that were recorded from applications, byte for byte (requests/README.md lists the applications).
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { root, startServer } from '../node/server.mjs';

const folder = `${root}/tests/clients/requests`;
let server;

before(async () => {
  server = await startServer('--served-model-name', 'qwen3-vl:4b', '--seed', '1');
});
after(() => server?.stop());

/* Reads a recorded request, inserts the image at its mark, and sets the two headers that depend on
 * the server. */
function request(name) {
  const recorded = readFileSync(`${folder}/${name}.http`, 'latin1');
  const at = recorded.indexOf('\r\n\r\n');
  const body = recorded.slice(at + 4).replace(/\{\{(.*?)\}\}/g, (_, image) => readFileSync(`${root}/examples/${image}`).toString('base64'));
  return Buffer.from(`${recorded.slice(0, at)}\r\nhost: 127.0.0.1:${server.port}\r\ncontent-length: ${Buffer.byteLength(body, 'latin1')}\r\n\r\n${body}`, 'latin1');
}

function unchunk(body) {
  let out = '', at = 0;
  for (;;) {
    const end = body.indexOf('\r\n', at);
    if (end < 0) return null;
    const size = parseInt(body.slice(at, end), 16);
    if (!size) return out;
    out += body.slice(end + 2, end + 2 + size);
    at = end + 2 + size + 2;
  }
}

/* {status, text}; null: not complete yet */
function reply(received) {
  const at = received.indexOf('\r\n\r\n');
  if (at < 0) return null;
  const head = received.slice(0, at).toLowerCase(), body = received.slice(at + 4);
  const length = /content-length: (\d+)/.exec(head);
  const text = length ? (body.length >= Number(length[1]) ? body : null) : unchunk(body);
  return text === null ? null : { status: Number(head.split(' ')[1]), text: Buffer.from(text, 'latin1').toString() };
}

function replay(name) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(server.port, '127.0.0.1', () => socket.write(request(name)));
    let received = '';
    socket.setEncoding('latin1').on('data', (more) => {
      received += more;
      const whole = reply(received);
      if (whole) socket.destroy(), resolve(whole);
    }).on('error', reject).on('end', () => reject(new Error(`${name}: the answer ended early: ${received.slice(0, 300)}`)));
  });
}

/* The text of an answer in any dialect, whole or streamed. */
function said(text) {
  const pieces = text.startsWith('data:') ? text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)))
    : text.trim().split('\n').map((line) => JSON.parse(line));
  return pieces.map((r) => r.response ?? r.message?.content ?? r.choices?.[0]?.message?.content ?? r.choices?.[0]?.delta?.content ?? '').join('');
}

/* What the application reads, by the last word of the file's name. */
const wanted = {
  show: (text) => assert.ok(JSON.parse(text).capabilities.includes('vision')),
  tags: (text) => assert.equal(JSON.parse(text).models[0].name, 'qwen3-vl:4b'),
  models: (text) => assert.ok(JSON.parse(text).data.some(({ id, max_model_len }) => id === 'qwen3-vl:4b' && max_model_len === 4096)),
  props: (text) => assert.ok(JSON.parse(text).modalities.vision && JSON.parse(text).default_generation_settings.n_ctx === 4096),
  baseline: (text) => assert.ok(JSON.parse(text).usage.prompt_tokens > 0),
  unload: (text) => assert.deepEqual([JSON.parse(text).done, JSON.parse(text).done_reason], [true, 'unload']),
  events: (text) => assert.match(text, /^event: message_start\n[^]*event: message_delta\n[^]*event: message_stop\n/),
  output: (text) => assert.match(JSON.parse(text).output[0].content[0].text, /FRAGILE/),
  messages: (text) => assert.ok(JSON.parse(text).stop_reason && Array.isArray(JSON.parse(text).content)),
  response: (text) => assert.match(text, /^event: response\.created\n[^]*event: response\.completed\n[^]*"usage":\{"input_tokens":/),
  describe: (text) => assert.match(said(text), /FRAGILE/),
  review: (text) => assert.match(said(text), /^\{"title":/), // 60 tokens may cut it off
  chat: (text) => assert.equal(typeof said(text), 'string'),
  stream: (text) => assert.ok(text.includes('"done":true') || text.trimEnd().endsWith('data: [DONE]')),
};

for (const file of readdirSync(folder).filter((name) => name.endsWith('.http')).sort())
  test(`replayed: ${file}`, async () => {
    const name = file.slice(0, -'.http'.length);
    const { status, text } = await replay(name);
    assert.equal(status, 200, text);
    wanted[name.slice(name.lastIndexOf('-') + 1)](text);
  });
