// SPDX-License-Identifier: Apache-2.0
// Every query of the Grafana dashboard uses metrics and labels of /metrics. Metrics of GPUs, which may be missing
// here, are looked up in the source.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { root, startServer } from '../node/server.mjs';

const dashboard = JSON.parse(readFileSync(`${root}/packaging/grafana/eyelet.json`, 'utf8'));
const charts = dashboard.panels.filter(({ type }) => type !== 'row');
const queries = charts.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ title, expr })));

/* metric name → labels of its samples */
async function metricsOf(server) {
  const found = new Map();
  for (const line of (await (await fetch(`${server.url}/metrics`)).text()).split('\n')) {
    const [, name, labels] = /^([a-z0-9_:]+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
    if (!name) continue;
    if (!found.has(name)) found.set(name, new Set());
    for (const [, label] of (labels ?? '').matchAll(/(\w+)="/g)) found.get(name).add(label);
  }
  return found;
}

test('grafana: every query uses metrics and labels that exist', async () => {
  const server = await startServer();
  try {
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: 2 });
    assert.equal((await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })).status, 200);
    const metrics = await metricsOf(server), source = readFileSync(`${root}/src/server/metrics.c`, 'utf8');
    assert.ok(queries.length > 30);
    for (const { title, expr } of queries) {
      const names = expr.match(/\b(vllm:|eyelet_)[a-z0-9_]+/g);
      assert.ok(names, `${title}: ${expr}`);
      for (const name of names) {
        const known = metrics.has(name) || (name.startsWith('eyelet_gpu_') && source.includes(`"${name}"`));
        assert.ok(known, `${title}: there is no metric ${name}`);
        const labels = [...expr.matchAll(/by \((\w+)\)|[{,] ?(\w+)=/g)].map((found) => found[1] ?? found[2]).filter((label) => label !== 'instance');
        for (const label of labels) assert.ok(metrics.get(name)?.has(label), `${title}: ${name} has no label ${label}`);
      }
    }
  } finally {
    await server.stop();
  }
});

test('grafana: panels have unique ids and do not overlap', () => {
  assert.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length);
  const taken = new Set();
  for (const { title, gridPos: { x, y, w, h } } of dashboard.panels)
    for (let i = x; i < x + w; i++) for (let k = y; k < y + h; k++) {
      assert.ok(i < 24 && !taken.has(`${i},${k}`), `${title} lies on another`);
      taken.add(`${i},${k}`);
    }
});

test('grafana: metrics that the guide names exist', () => {
  const guide = readFileSync(`${root}/docs/guides/operating.md`, 'utf8'), shown = JSON.stringify(charts);
  for (const [, name] of guide.matchAll(/^\| `((?:vllm:|eyelet_)[a-z0-9_]+)`/gm)) assert.ok(shown.includes(name), `${name} is not in the dashboard`);
});
