// SPDX-License-Identifier: Apache-2.0
/* The memory plan: a bar whose parts are as long as they are large, and the same as a list. */
import { bytes } from './words.js';

const $ = (id) => document.getElementById(id);
const card = $('memory');
const bar = $('bar');
const legend = $('legend');
const total = $('memory-total');

const LIVES = { vision: 'to look at images', prefill: 'to read questions' };
const DEVICES = { file: 'mapped from the model’s files', host: '' }; // a GPU has its own name

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
  total.textContent = `${bytes(sum)} planned before the first request, and no more after it`
    + (plan.host_budget_bytes ? `, but for up to ${bytes(plan.host_budget_bytes)} that images on their way may take.` : '.');
  bar.replaceChildren(...items.map(part));
  bar.setAttribute('aria-label', `Memory plan: ${items.map((item) => `${item.name} ${bytes(item.bytes)}`).join(', ')}`);
  legend.replaceChildren(...items.map(line));
}
