// Texts drawn at random from the masks of generated schemas are valid to ajv.
//     tools/run_node_tests.sh tests/constrain build/eyelet        (needs build/tests/constrain/constrain_walks)
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import Ajv from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const root = fileURLToPath(new URL('../..', import.meta.url));
const build = process.env.EYELET ? dirname(process.env.EYELET) : `${root}/build`;
const SCHEMAS = Number(process.env.SCHEMAS || 500);

function lines(seed) {
  const options = { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 };
  return execFileSync(`${build}/tests/constrain/constrain_walks`, ['--samples', String(SCHEMAS), String(seed)], options).trim().split('\n');
}

test(`every text of ${SCHEMAS} schemas is valid`, () => {
  const ajv = new Ajv({ strict: false });
  addFormats(ajv);
  let texts = 0;
  for (const line of lines(process.env.SEED || 1)) {
    const sample = JSON.parse(line);
    const validate = ajv.compile(sample.schema);
    for (const text of sample.texts) {
      texts++;
      assert.ok(validate(JSON.parse(text)), `${text}\nis not valid by\n${JSON.stringify(sample.schema)}\n${ajv.errorsText(validate.errors)}`);
    }
  }
  assert.ok(texts > 6 * SCHEMAS, `only ${texts} texts`);
});
