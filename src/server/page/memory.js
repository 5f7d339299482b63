// SPDX-License-Identifier: Apache-2.0
/* Shows the memory plan as a bar with one part for each item, and as a list. */
import { bytes } from './words.js';

const $ = (id) => document.getElementById(id);
const card = $('memory');
const bar = $('bar');
const legend = $('legend');
const total = $('memory-total');

const LIVES = { vision: 'while encoding images', prefill: 'while reading prompts' };
const DEVICES = { file: 'mapped from the model’s files', host: '' }; // GPUs are shown by name

function span(className, text = '') {
  const node = document.createElement('span');
  node.className = className;
  node.textContent = text;
  return node;
}

const look = (item, i) => `part-${i % 6}${item.device === 'file' ? ' mapped' : ''}`;

function part(item, i) {
  const node = span(`part ${look(item, i)}`);
  node.style.flexGrow = item.bytes;
  return node;
}

function line(item, i) {
  const node = document.createElement('li');
  const where = [DEVICES[item.device] ?? item.device, ...item.life.split(', ').map((life) => LIVES[life])].filter(Boolean).join(', ');
  const what = span('what');
  what.append(span('name', item.name), ' ', span('where', where));
  node.append(span(`swatch ${look(item, i)}`), what, span('size', bytes(item.bytes)));
  return node;
}

export function showPlan(plan) {
  const items = (plan.items || []).filter((item) => item.bytes > 0);
  const sum = items.reduce((n, item) => n + item.bytes, 0);
  card.hidden = !sum;
  if (!sum) return;
  $('memory-line').textContent = `Memory: ${bytes(sum)}`;
  total.textContent = `${bytes(sum)} are planned before the first request and do not grow after it`
    + (plan.host_budget_bytes ? `, except for up to ${bytes(plan.host_budget_bytes)} for images of running requests.` : '.');
  bar.replaceChildren(...items.map(part));
  bar.setAttribute('aria-label', `Memory plan: ${items.map((item) => `${item.name} ${bytes(item.bytes)}`).join(', ')}`);
  legend.replaceChildren(...items.map(line));
}
