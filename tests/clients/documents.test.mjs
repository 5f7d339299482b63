// SPDX-License-Identifier: Apache-2.0
// Runs the code blocks that docs/**/*.md mark `run` and compares their output with the following block marked `output`. Also checks that
// every block of commands is marked and that links have targets.
//
//   ```sh run          run by bash, python or node, in one folder for each document, against one server; `…` in the output matches any text
//   ```sh server       `eyelet serve …`: the server of the document's blocks
//   ```sh check        the options of each line `eyelet …` must exist
//   ```sh              not run: the line above, in italics, says where and when it was run, or why not
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { root, startServer } from '../node/server.mjs';

const EYELET = process.env.EYELET || `${root}/build/eyelet`;
const LANGUAGES = { sh: ['bash', '-euo', 'pipefail', '-c'], python: ['python3', '-c'], javascript: ['node', '--input-type=module', '-e'] };
const documents = ['../README.md', ...readdirSync(`${root}/docs`, { recursive: true }).filter((name) => name.endsWith('.md'))];
/* Empty, as if nothing had been downloaded. */
const hub = mkdtempSync(join(tmpdir(), 'eyelet-hub-'));
after(() => rmSync(hub, { recursive: true, force: true }));

/* {language, mark, text, line, before: the line above} of each fenced block. */
function blocks(document) {
  const lines = readFileSync(`${root}/docs/${document}`, 'utf8').split('\n');
  const found = [];
  for (let i = 0; i < lines.length; i++) {
    const open = /^```(\S*) ?(.*)$/.exec(lines[i]);
    if (!open) continue;
    const start = i;
    while (lines[++i] !== '```') assert.ok(i < lines.length, `${document}:${start + 1}: the block does not end`);
    const before = lines.slice(0, start).findLast((line) => line.trim()) ?? '';
    found.push({ language: open[1], mark: open[2], text: lines.slice(start + 1, i).join('\n'), line: start + 1, before });
  }
  return found;
}

/* A folder for a document's commands, with images and eyelet on the PATH. */
function workplace() {
  const folder = mkdtempSync(join(tmpdir(), 'eyelet-docs-'));
  mkdirSync(join(folder, 'bin'));
  symlinkSync(EYELET, join(folder, 'bin/eyelet'));
  symlinkSync(`${root}/tests/clients/node_modules`, join(folder, 'node_modules'));
  mkdirSync(join(folder, 'photos'));
  copyFileSync(`${root}/examples/shapes-2.jpg`, join(folder, 'photo.jpg'));
  copyFileSync(`${root}/examples/word-2.jpg`, join(folder, 'label.jpg'));
  copyFileSync(`${root}/examples/shapes-3.png`, join(folder, 'scene.png'));
  copyFileSync(`${root}/tests/document/data/two.pdf`, join(folder, 'report.pdf'));
  for (const name of ['shapes-1.png', 'shapes-4.png', 'word-1.png']) copyFileSync(`${root}/examples/${name}`, join(folder, 'photos', name));
  return folder;
}

function command([program, ...args], cwd) {
  const env = { ...process.env, PATH: `${cwd}/bin:${process.env.PATH}`, EYELET_MODEL: `${root}/models/demo`, HF_HUB_CACHE: hub };
  for (const name of ['VLLM_API_KEY', 'EYELET_SERVER', 'EYELET_API_KEY']) delete env[name];
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const result = { out: '', err: '' };
    child.stdout.setEncoding('utf8').on('data', (text) => (result.out += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (result.err += text));
    child.once('error', reject);
    child.once('close', (status) => resolve({ ...result, status }));
  });
}

function assertLooksLike(printed, shown, where) {
  const pattern = shown.trim().split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('[^]*?');
  if (!new RegExp(`^${pattern}$`).test(printed.trim())) assert.equal(printed.trim(), shown.trim(), where);
}

/* The eyelet calls of a block; lines that end with \ are joined. */
const calls = (text) => text.replaceAll(/\\\n\s*/g, '').split('\n').map((line) => line.replace(/\s+#.*$/, '').replace(/^(sudo )?([A-Z_]+=\S+ )*/, '').trim())
  .filter((line) => line.startsWith('eyelet '));

for (const document of documents) {
  const all = blocks(document);
  test(`${document}: links have targets`, () => {
    const text = readFileSync(`${root}/docs/${document}`, 'utf8');
    for (const [, target] of text.matchAll(/\]\((?!https?:)([^)#\s]+)[^)]*\)/g)) assert.ok(existsSync(join(root, 'docs', dirname(document), target)), `${document}: ${target}`);
  });
  if (!all.some(({ language }) => language)) continue;

  test(`${document}: each block is marked`, () => {
    for (const { language, mark, line, before } of all) {
      if (!(language in LANGUAGES) && language !== 'powershell') continue;
      const known = mark === 'run' || mark === 'server' || mark === 'check' || (mark === '' && /^_(Run|Not run) .*_$/.test(before));
      assert.ok(known, `${document}:${line}: run, server, check, or a line above that says _Run DATE, MACHINE_ or _Not run …_`);
    }
  });

  for (const block of all.filter(({ mark }) => mark === 'check' || mark === 'server'))
    test(`${document}:${block.line}: the options exist`, async () => {
      assert.ok(calls(block.text).length > 0);
      for (const call of calls(block.text)) {
        const { status, err } = await command(['bash', '-c', `${call.replace(/ [|&>].*$/, '')} --help`], folderOf(document));
        assert.equal(status, 0, `${call}\n${err}`);
      }
    });

  if (!all.some(({ mark }) => mark === 'run')) continue;
  test(`${document}: its commands run`, { timeout: 120000 }, async (t) => {
    const start = all.find(({ mark }) => mark === 'server');
    const folder = folderOf(document);
    const words = start ? calls(start.text)[0].split(/\s+/).slice(2).filter((word) => word !== '--port' && word !== '8000').map((word) => word.replace('$PWD', folder)) : [];
    const server = start && await startServer(...words.filter((word) => !word.startsWith('Qwen/')));
    try {
      for (let i = 0; i < all.length; i++) {
        if (all[i].mark !== 'run') continue;
        await t.test(`${document}:${all[i].line}`, async () => {
          const text = server ? all[i].text.replaceAll('localhost:8000', `localhost:${server.port}`) : all[i].text;
          const { out, err, status } = await command([...LANGUAGES[all[i].language], text], folder);
          assert.equal(status, 0, `${document}:${all[i].line}: status ${status}\n${out}${err}`);
          const next = all[i + 1];
          if (next?.mark === 'output') assertLooksLike(server ? out.replaceAll(`localhost:${server.port}`, 'localhost:8000') : out, next.text, `${document}:${next.line}`);
        });
      }
    } finally {
      await server?.stop();
    }
  });
}

const folders = new Map();
function folderOf(document) {
  if (!folders.has(document)) folders.set(document, workplace());
  return folders.get(document);
}
after(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));
