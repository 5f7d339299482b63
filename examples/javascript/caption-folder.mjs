// SPDX-License-Identifier: Apache-2.0
// A caption for each image of a folder, as a CSV: node caption-folder.mjs photos captions.csv
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ask, each, isImage, options } from './eyelet-client.mjs';

const o = options('caption-folder.mjs FOLDER OUT.csv', 2);
const [folder, out] = o.positionals;
const paths = readdirSync(folder).filter(isImage).sort().map((name) => join(folder, name));
const question = 'Describe this image in one sentence.';
const results = await each(o['at-once'], paths, (path) => ask(o, path, question, { temperature: 0, max_tokens: 128 }));

const cell = (text = '') => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const rows = [['image', 'caption', 'error'], ...results.map(({ path, value, error }) => [path, value, error])];
writeFileSync(out, rows.map((row) => `${row.map(cell).join(',')}\r\n`).join(''));
process.exitCode = results.some(({ error }) => error) ? 1 : 0;
