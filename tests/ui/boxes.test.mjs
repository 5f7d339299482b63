// SPDX-License-Identifier: Apache-2.0
// The page's reader of boxes gives the same results as the program's, with the table of tests/tasks/test_boxes.c.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const read = (path) => readFileSync(new URL(path, import.meta.url), 'utf8');
const { readBoxes } = await import(`data:text/javascript,${encodeURIComponent(read('../../src/server/page/boxes.js'))}`); // an ES module named .js
const source = read('../tasks/test_boxes.c');

const INSIDE = '(?:\\\\.|[^"\\\\])*';
const STRING = `((?:"${INSIDE}"\\s*)+)`;

// Consecutive C string literals, with escaped bytes → the text that the page gets.
function fromC(literals) {
  const inside = [...literals.matchAll(new RegExp(`"(${INSIDE})"`, 'g'))].map(([, text]) => text).join('');
  const bytes = [];
  for (const [, hex, escaped, plain] of inside.matchAll(/\\x([\da-f]{2})|\\(.)|([^\\]+)/g)) {
    if (hex) bytes.push(parseInt(hex, 16));
    else bytes.push(...Buffer.from(plain ?? ({ n: '\n', t: '\t' }[escaped] || escaped)));
  }
  return Buffer.from(bytes).toString('utf8');
}

const cases = [...source.matchAll(new RegExp(`\\{${STRING},\\s*${STRING}\\},`, 'g'))].map(([, answer, boxes]) => [fromC(answer), fromC(boxes)]);

function describe({ boxes, none }) {
  if (none) return 'none';
  if (!boxes.length) return 'unclear';
  return boxes.map(({ box, label }) => `${label} ${box.join(' ')}`).join('; ');
}

test('the page reads boxes as the program does', () => {
  assert.ok(cases.length > 55, `only ${cases.length} cases were found in the table`);
  for (const [answer, expected] of cases) assert.equal(describe(readBoxes(answer)), expected, JSON.stringify(answer));
});

test('at most a thousand boxes', () => assert.equal(readBoxes('{"bbox_2d": [1, 2, 3, 4]}'.repeat(2000)).boxes.length, 1000));

/* Processor milliseconds of a function. */
function cpuOf(act) {
  const before = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/* A fixed piece of work, about 0.1 s. Limits are in units of it, so that the machine does not
 * matter. */
function yardstick() {
  let x = 1;
  for (let i = 0; i < 50e6; i++) x = (Math.imul(x, 1664525) + 1013904223) | 0;
  assert.ok(Number.isInteger(x));
}

test('boxes: endless nesting and quotes take no time', () => {
  const spent = cpuOf(() => {
    for (const part of ['{', '[', '{"a":', '[{', '"', '{"label": "', "{'", '\\', '{"bbox_2d": [', '{"bbox_2d": [1,'])
      assert.equal(readBoxes(part.repeat(50000 / part.length)).boxes.length, 0);
  });
  const yard = cpuOf(yardstick);
  assert.ok(spent < 50 * yard, `${spent} ms, and the yardstick took ${yard}`);
});
