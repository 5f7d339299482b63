// SPDX-License-Identifier: Apache-2.0
// The programs of examples/python and examples/javascript with the demo model: their output and their errors.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { root, startServer } from '../node/server.mjs';

const expected = JSON.parse(readFileSync(`${root}/examples/expected.json`));
const names = ['shapes-3.png', 'word-2.jpg'];
const folder = mkdtempSync(join(tmpdir(), 'eyelet-examples-'));
let server;

before(async () => {
  server = await startServer('--api-key', 'a-key');
  mkdirSync(join(folder, 'photos'));
  for (const name of names) copyFileSync(`${root}/examples/${name}`, join(folder, 'photos', name));
  writeFileSync(join(folder, 'photos/broken.png'), 'this is no image');
  writeFileSync(join(folder, 'label.json'), JSON.stringify({
    type: 'object', properties: { kind: { enum: ['label', 'shapes'] }, count: { type: 'integer', minimum: 0, maximum: 9 } }, required: ['kind', 'count'],
  }));
});
after(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/* Runs an example in the folder; returns {status, out, err}. */
function run(program, ...args) {
  const [command, path] = program.endsWith('.py') ? ['/usr/bin/python3', `${root}/examples/python/${program}`] : ['node', `${root}/examples/javascript/${program}`];
  return new Promise((resolve) => {
    execFile(command, ['-B', path, '--server', server.url, '--key', 'a-key', ...args].slice(command === 'node' ? 1 : 0), { cwd: folder },
      (error, out, err) => resolve({ status: error ? error.code : 0, out, err }));
  });
}
const lines = (out) => out.trim().split('\n').map((line) => JSON.parse(line));
const photos = names.map((name) => `photos/${name}`);

for (const program of ['caption_folder.py', 'caption-folder.mjs'])
  test(`${program}: a row for each image; a broken one gets an error and the others are captioned`, async () => {
    const { status, err } = await run(program, 'photos', 'captions.csv');
    assert.equal(status, 1, err);
    const rows = readFileSync(join(folder, 'captions.csv'), 'utf8').trim().split('\r\n');
    assert.equal(rows[0], 'image,caption,error');
    assert.match(rows[1], /^photos\/broken\.png,,.*image/i);
    // the demo model was trained on another wording, so only a complete answer is required
    assert.match(rows[2], /^photos\/shapes-3\.png,.*(circle|heart).*,$/);
    assert.match(rows[3], /^photos\/word-2\.jpg,.*FRAGILE.*,$/);
    assert.equal(rows.length, 4);
  });

for (const program of ['extract_fields.py', 'extract-fields.mjs'])
  test(`${program}: fields of the schema`, async () => {
    const { status, out, err } = await run(program, 'label.json', ...photos);
    assert.equal(status, 0, err);
    const found = lines(out);
    assert.deepEqual(found.map(({ image }) => image), photos);
    for (const { fields } of found) {
      assert.deepEqual(Object.keys(fields), ['kind', 'count']);
      assert.ok(['label', 'shapes'].includes(fields.kind) && Number.isInteger(fields.count));
    }
  });

for (const program of ['draw_boxes.py', 'draw-boxes.mjs'])
  test(`${program}: boxes in pixels, and drawn`, async () => {
    const { status, out, err } = await run(program, 'shape', 'found', photos[0], 'photos/broken.png');
    assert.equal(status, 1, err);
    const [found, broken] = lines(out);
    assert.match(broken.error, /image/i);
    assert.equal(found.boxes.length, 2);
    // the heart and the circle, to the pixel
    const truth = [[9, 147, 115, 239], [167, 7, 213, 54]];
    const sorted = found.boxes.map(({ box }) => box).sort((a, b) => a[0] - b[0]);
    sorted.forEach((box, i) => box.forEach((v, k) => assert.ok(Math.abs(v - truth[i][k]) <= 12, `${JSON.stringify(sorted)} is not ${JSON.stringify(truth)}`)));
    if (program.endsWith('.py')) assert.equal(readFileSync(join(folder, 'found/shapes-3.png')).subarray(1, 4).toString(), 'PNG');
    else assert.equal(readFileSync(join(folder, 'found/shapes-3.png.svg'), 'utf8').match(/<rect/g).length, 2);
  });

test('a wrong call prints the usage', async () => {
  const { status, err } = await run('draw-boxes.mjs', 'square');
  assert.equal(status, 2);
  assert.match(err, /usage: draw-boxes\.mjs THINGS/);
});
