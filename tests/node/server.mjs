// SPDX-License-Identifier: Apache-2.0
// The program, serving the demo model to a test.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
const EYELET = process.env.EYELET || `${root}/build/eyelet`;
const START_MS = 120000;
const STOP_MS = 120000;

/* Options of a slow server, whose answers can be cancelled: with the reference backend, 3,000
 * tokens take long. */
export const SLOW = ['--device', 'ref'];

const env = { ...process.env };
delete env.VLLM_API_KEY; // the user's key must not affect the tests

/* Starts the server and waits until it is ready: {url, port, log(), metric(name), until(condition),
 * stop(), kill()}. */
export async function startServer(...more) {
  const port = more.includes('--port') ? [] : ['--port', '0'];
  const child = spawn(EYELET, ['serve', '--model', 'models/demo', ...port, ...more], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (log += text));
  const ended = once(child, 'exit');
  const url = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no "ready on" in ${START_MS / 1000} s:\n${log}`)), START_MS);
    const look = () => {
      const found = /ready on (http:\/\/\S+)/.exec(log);
      if (found) clearTimeout(timer), resolve(found[1]);
    };
    for (const stream of [child.stdout, child.stderr]) stream.on('data', look);
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`the server ended with status ${code}:\n${log}`)));
  });

  const server = {
    url,
    port: Number(new URL(url).port),
    log: () => log,
    /* The sum of a metric over its labels; `label` selects some, e.g. 'finished_reason="abort"'. */
    async metric(name, label = '') {
      const key = more.includes('--api-key') ? more[more.indexOf('--api-key') + 1] : '';
      const text = await (await fetch(`${url}/metrics`, { headers: key ? { Authorization: `Bearer ${key}` } : {} })).text();
      const lines = text.split('\n').filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(label));
      if (!lines.length) throw new Error(`/metrics has no ${name} ${label}`);
      return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
    },
    /* Sends SIGTERM; throws unless the server exits with status 0. */
    async stop() {
      if (child.exitCode !== null || child.signalCode) return;
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
      const [code, signal] = await ended;
      clearTimeout(timer);
      if (code !== 0) throw new Error(`after SIGTERM the server ended with ${signal || `status ${code}`}:\n${log.slice(-4000)}`);
    },
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
  return server;
}

/* Waits until a condition is true. */
export async function until(condition, what, ms = 120000) {
  const end = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`not within ${ms / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
