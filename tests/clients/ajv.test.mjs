// SPDX-License-Identifier: Apache-2.0
// Validates with ajv: random texts from the masks of generated schemas (with all that docs/guides/structured.md
// lists), and answers of the demo model and of an untrained one at temperature 1.5. The environment variables SCHEMAS
// and SEED set the number of schemas and the seed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';

import Ajv from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { root, startServer } from '../node/server.mjs';

const build = process.env.EYELET ? dirname(process.env.EYELET) : `${root}/build`;
const SCHEMAS = Number(process.env.SCHEMAS || 500), SEED = Number(process.env.SEED || 1);
const AT_ONCE = 32, MAX_TOKENS = 160;
let samples;

before(() => {
  const options = { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 };
  const lines = execFileSync(`${build}/tests/constrain/constrain_walks`, ['--samples', String(SCHEMAS), String(SEED)], options).trim().split('\n');
  const ajv = addFormats(new Ajv({ strict: false }));
  samples = lines.map((line) => JSON.parse(line)).map((sample) => ({ ...sample, validate: ajv.compile(sample.schema) }));
  assert.equal(samples.length, SCHEMAS);
});

function check({ schema, validate }, text) {
  assert.ok(validate(JSON.parse(text)), `${text}\nis not valid by\n${JSON.stringify(schema)}\n${JSON.stringify(validate.errors)}`);
}

test(`every text from the masks of ${SCHEMAS} schemas is valid`, () => {
  let texts = 0;
  for (const sample of samples) for (const text of sample.texts) check(sample, text), texts++;
  assert.ok(texts > 6 * SCHEMAS, `only ${texts} texts`);
});

async function answer(url, schema, seed) {
  const body = {
    messages: [{ role: 'user', content: 'Say something.' }], response_format: { type: 'json_schema', json_schema: { name: 'generated', schema } },
    temperature: 1.5, top_p: 1, top_k: 0, seed, max_tokens: MAX_TOKENS,
  };
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  const reply = await response.json();
  assert.equal(response.status, 200, JSON.stringify(reply));
  return reply.choices[0];
}

/* Every complete answer must be valid; most must be complete. */
async function checkModel(...options) {
  const server = await startServer('--max-num-seqs', String(AT_ONCE), ...options);
  let next = 0, completed = 0;
  async function ask() {
    for (let i = next++; i < SCHEMAS; i = next++) {
      const { message, finish_reason } = await answer(server.url, samples[i].schema, SEED + i);
      if (finish_reason === 'stop') check(samples[i], message.content), completed++;
      else assert.equal(finish_reason, 'length');
    }
  }
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, ask));
  } finally {
    await server.stop();
  }
  assert.ok(completed > SCHEMAS * 0.5, `only ${completed} answers were completed`);
  return completed;
}

test(`the demo model's answers to ${SCHEMAS} schemas are valid`, async (t) => t.diagnostic(`${await checkModel()} completed`));

test(`an untrained model's answers to ${SCHEMAS} schemas are valid`, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'eyelet-untrained-'));
  t.after(() => rmSync(folder, { recursive: true }));
  execFileSync(`${build}/mkcheckpoint`, ['--like', 'tiny-ragged-fp8', '--seed', '1', join(folder, 'model')]);
  t.diagnostic(`${await checkModel('--model', join(folder, 'model'))} completed`);
});
