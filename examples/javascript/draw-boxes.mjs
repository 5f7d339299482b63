// SPDX-License-Identifier: Apache-2.0
// Finds things in images and draws boxes around them, each image as an SVG:
//   node draw-boxes.mjs "car, person" out photos/*.jpg
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ask, dataUrl, each, options } from './eyelet-client.mjs';

const o = options('draw-boxes.mjs THINGS OUT-FOLDER IMAGE...', 3);
const [things, out, ...paths] = o.positionals;
const labels = things.split(',').map((thing) => thing.trim());
const colors = ['#e6194b', '#3cb44b', '#4363d8', '#f58231', '#911eb4', '#008080'];

const question = `Locate every instance that belongs to the following categories: '${things}'. ` +
  'Report bbox coordinates in JSON format.';
const coordinate = { type: 'integer', minimum: 0, maximum: 1000 }; // thousandths of width and height, upright
const box = {
  type: 'object', required: ['bbox_2d', 'label'],
  properties: { bbox_2d: { type: 'array', items: coordinate, minItems: 4, maxItems: 4 }, label: { enum: labels } },
};
const schema = { type: 'array', items: box, maxItems: 100 };
const response_format = { type: 'json_schema', json_schema: { name: 'boxes', schema } };

const escaped = (text) => text.replace(/[<>&"]/g, (c) => `&#${c.charCodeAt(0)};`);
/* The image with boxes over it, in pixels. */
function svg(path, boxes, width, height) {
  const drawn = boxes.map(({ label, bbox_2d: [x1, y1, x2, y2] }) => {
    const color = colors[labels.indexOf(label) % colors.length];
    const x = (Math.min(x1, x2) * width) / 1000, w = (Math.abs(x2 - x1) * width) / 1000;
    const y = (Math.min(y1, y2) * height) / 1000, h = (Math.abs(y2 - y1) * height) / 1000;
    return `<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="none" stroke="${color}" stroke-width="3"/>` +
      `<text x="${x + 4}" y="${y + 14}" font-family="sans-serif" font-size="14" fill="${color}">` +
      `${escaped(label)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}">` +
    `<image href="${dataUrl(path)}" width="${width}" height="${height}"/>${drawn.join('')}</svg>\n`;
}

/* The upright image's size, which the server knows. */
async function sizeOf(path) {
  const reply = await fetch(`${o.server}/v1/chat/completions/render`, {
    method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${o.key}` },
    body: JSON.stringify({
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: dataUrl(path) } }] }],
    }),
  });
  const body = await reply.json();
  if (!reply.ok) throw new Error(body.error.message);
  return body.images[0];
}

mkdirSync(out, { recursive: true });
const results = await each(o['at-once'], paths, async (path) => {
  const { width, height } = await sizeOf(path);
  const boxes = JSON.parse(await ask(o, path, question, { temperature: 0, max_tokens: 2048, response_format }));
  writeFileSync(join(out, `${basename(path)}.svg`), svg(path, boxes, width, height));
  return boxes.map(({ label, bbox_2d: [x1, y1, x2, y2] }) => {
    const [left, right] = [Math.min(x1, x2) * width, Math.max(x1, x2) * width];
    const [top, bottom] = [Math.min(y1, y2) * height, Math.max(y1, y2) * height];
    return { label, box: [left, top, right, bottom].map((v) => Math.round(v / 1000)) };
  });
});
for (const { path, value, error } of results)
  console.log(JSON.stringify({ image: path, ...(error ? { error } : { boxes: value }) }));
process.exitCode = results.some(({ error }) => error) ? 1 : 0;
