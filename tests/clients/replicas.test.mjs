// SPDX-License-Identifier: Apache-2.0
// Two servers behind nginx with the configuration of packaging/nginx, under load: one is killed and comes back, and
// the other is replaced.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { root, startServer, until } from '../node/server.mjs';

const CLIENTS = 8;
const names = ['shapes-1.png', 'shapes-4.png', 'word-1.png', 'both-1.png'];
const images = names.map((name) => `data:image/png;base64,${readFileSync(`${root}/examples/${name}`).toString('base64')}`);
const expected = JSON.parse(readFileSync(`${root}/examples/expected.json`));
const folder = mkdtempSync(join(tmpdir(), 'eyelet-nginx-'));
let first, second, nginx, url;

async function freePort() {
  const socket = createServer().listen(0, '127.0.0.1');
  await once(socket, 'listening');
  const { port } = socket.address();
  socket.close();
  await once(socket, 'close');
  return port;
}

/* Writes the shipped configuration with free ports. */
function writeConfiguration(port) {
  const site = readFileSync(`${root}/packaging/nginx/eyelet.conf`, 'utf8')
    .replace('127.0.0.1:8001', `127.0.0.1:${first.port}`).replace('127.0.0.1:8002', `127.0.0.1:${second.port}`).replace('listen 8000', `listen 127.0.0.1:${port}`);
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`).join(' ');
  writeFileSync(join(folder, 'nginx.conf'), `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;\n` +
    `events {}\nhttp { access_log off; ${paths}\n${site}\n}\n`);
}

before(async () => {
  [first, second] = await Promise.all([startServer(), startServer()]);
  const port = await freePort();
  writeConfiguration(port);
  url = `http://127.0.0.1:${port}`;
  const path = `${process.env.PATH}:/usr/sbin`;
  nginx = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], { env: { ...process.env, PATH: path }, stdio: ['ignore', 'inherit', 'inherit'] });
  await until(() => fetch(`${url}/health`).then((reply) => reply.ok, () => false), 'nginx answers');
});
after(async () => {
  nginx?.kill('SIGKILL');
  await Promise.all([first?.stop(), second?.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

function post(k, more) {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ temperature: 0, ...more, messages: [{ role: 'user', content: [
      { type: 'image_url', image_url: { url: images[k] } }, { type: 'text', text: 'Describe this image.' }] }] }),
  });
}

/* Clients that ask until stop(), which returns {answers, failures, slowest in ms}. */
function load() {
  const seen = { answers: 0, failures: [], slowest: 0 };
  let on = true;
  const clients = Array.from({ length: CLIENTS }, async (_, client) => {
    for (let i = client; on; i++) {
      const start = Date.now(), k = i % names.length;
      try {
        const reply = await post(k);
        const body = await reply.json();
        assert.equal(reply.status, 200, JSON.stringify(body));
        assert.equal(body.choices[0].message.content, expected[names[k]]);
        seen.answers++;
      } catch (error) {
        seen.failures.push(error.message);
      }
      seen.slowest = Math.max(seen.slowest, Date.now() - start);
    }
  });
  return { seen, stop: async () => { on = false; await Promise.all(clients); return seen; } };
}

const answered = (server) => server.metric('vllm:request_success_total');

async function underLoad(what, t, act) {
  const running = load();
  await until(() => running.seen.answers > 2 * CLIENTS, 'answers come');
  await act(running.seen);
  const from = running.seen.answers;
  await until(() => running.seen.answers > from + 2 * CLIENTS, 'answers go on');
  const { answers, failures, slowest } = await running.stop();
  t.diagnostic(`${what}: ${answers} answers, ${failures.length} failures, the slowest took ${slowest} ms`);
  console.log(`${what}: ${answers} answers, ${failures.length} failures, the slowest took ${slowest} ms`);
  assert.deepEqual(failures, []);
}

test('both servers get requests, and answers are right', async (t) => {
  await underLoad('two servers', t, () => until(async () => (await answered(first)) > CLIENTS && (await answered(second)) > CLIENTS, 'both answer'));
  assert.ok((await answered(first)) > 0 && (await answered(second)) > 0);
});

test('one is killed under load: no request is lost', async (t) => {
  await underLoad('one killed', t, async (seen) => {
    await second.kill();
    const from = seen.answers;
    await until(() => seen.answers > from + 8 * CLIENTS, 'the other answers for both');
  });
});

test('it comes back and gets requests again', async (t) => {
  second = await startServer('--port', String(second.port));
  await underLoad('one came back', t, () => until(async () => (await answered(second)) > CLIENTS, 'the server that came back answers'));
});

test('one is stopped under load: no request and no stream is lost', async (t) => {
  await underLoad('one replaced', t, async () => {
    const streams = await Promise.all(images.map((_, k) => post(k, { stream: true })));
    const stopped = first.stop();
    const texts = await Promise.all(streams.map((reply) => reply.text()));
    for (const text of texts) assert.ok(text.trim().endsWith('data: [DONE]'), text.slice(-300));
    await stopped;
  });
});
