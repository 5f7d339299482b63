// SPDX-License-Identifier: Apache-2.0
/* The image: how it comes (dropped, pasted, chosen, photographed, drawn here), its preview, and boxes drawn over it. */
import { bytes, count } from './words.js';
import { drawExample } from './example.js';

const $ = (id) => document.getElementById(id);
const stage = $('stage');
const frame = $('frame');
const preview = $('preview');
const boxLayer = $('boxes');

const EXTENSIONS = /\.(jpe?g|png|webp|gif|hei[cf]|avif)$/i;
const MANY_BOXES = 12; // the tags of further ones show numbers only; the list has the names

let current = null; // {file, url, width, height, dataUrl: a promise}
let changed = () => {};

export const image = () => current;

function readAsDataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

function complain(text) {
  $('image-wrong').textContent = text;
  $('image-wrong').hidden = !text;
}

/* What is known of the image: of the file, and once the model has seen it, what it saw. */
export function showFacts(seen) {
  const facts = [current.file.name || 'Pasted image'];
  const width = seen?.width || current.width, height = seen?.height || current.height;
  if (width) facts.push(`${count(width)} × ${count(height)} pixels`);
  facts.push(bytes(current.file.size));
  if (seen) {
    const scaled = seen.used_width !== seen.width || seen.used_height !== seen.height;
    facts.push(`${scaled ? `the model saw ${count(seen.used_width)} × ${count(seen.used_height)}` : 'seen as it is'}, ${count(seen.tokens)} tokens`);
    if (!current.width) frame.style.aspectRatio = `${seen.width} / ${seen.height}`;
    Object.assign(current, { width, height });
  }
  $('facts').textContent = facts.join(' · ');
}

function drawBox({ box: [x1, y1, x2, y2], label }, i) {
  const node = document.createElement('div');
  node.className = `box color-${i % 6}${y1 < 60 ? ' inside' : ''}${x1 > 700 ? ' right' : ''}`;
  Object.assign(node.style, { left: `${x1 / 10}%`, top: `${y1 / 10}%`, width: `${(x2 - x1) / 10}%`, height: `${(y2 - y1) / 10}%` });
  const tag = document.createElement('span');
  tag.textContent = label && i < MANY_BOXES ? `${i + 1} ${label}` : i + 1;
  node.append(tag);
  return node;
}

let shown; // the list whose boxes are there; it may have grown since
/* `lead`: brings the image into sight, for those on a phone. */
export function showBoxes(boxes, marked = -1, lead = false) {
  if (boxes !== shown) boxLayer.replaceChildren();
  shown = boxes;
  for (let i = boxLayer.childNodes.length; i < boxes.length; i++) boxLayer.append(drawBox(boxes[i], i));
  boxLayer.childNodes.forEach((node, i) => node.classList.toggle('marked', i === marked));
  if (lead) frame.scrollIntoView({ block: 'nearest' });
}

export function setImage(file) {
  if (current) URL.revokeObjectURL(current.url);
  complain('');
  showBoxes([]);
  frame.style.aspectRatio = '';
  current = file && { file, url: URL.createObjectURL(file), width: 0, height: 0, dataUrl: readAsDataUrl(file) };
  current?.dataUrl.catch(() => {}); // told when it is asked for
  $('empty').hidden = Boolean(current);
  for (const id of ['remove', 'facts']) $(id).hidden = !current;
  frame.hidden = !current;
  $('file-label').textContent = current ? 'Another image' : 'Choose an image';
  $('no-preview').hidden = true;
  preview.hidden = !current;
  if (current) {
    preview.src = current.url;
    preview.alt = file.name ? `The image you chose: ${file.name}` : 'The image you chose';
    showFacts();
  } else preview.removeAttribute('src');
  changed(current);
}

function offer(files) {
  const file = files[0];
  if (!file || document.body.classList.contains('text-only')) return;
  if (!file.type.startsWith('image/') && !EXTENSIONS.test(file.name)) {
    complain(`${file.name || 'This'} is not an image. Choose a JPEG, PNG, WebP, GIF, HEIC or AVIF file.`);
    return;
  }
  setImage(file);
  if (files.length > 1) complain(`One image at a time: this is the first of ${count(files.length)}.`);
}

preview.addEventListener('load', () => {
  if (!current) return;
  Object.assign(current, { width: preview.naturalWidth, height: preview.naturalHeight });
  showFacts();
});
preview.addEventListener('error', () => {
  if (!current) return;
  preview.hidden = true;
  $('no-preview').hidden = false;
});

/* ---- the ways in ---- */

for (const id of ['file', 'photo'])
  $(id).addEventListener('change', (event) => {
    offer(event.target.files);
    event.target.value = ''; // the same file chosen again is a change too
  });
$('remove').addEventListener('click', () => {
  setImage(null);
  $('file').focus();
});
$('example').addEventListener('click', async () => setImage(await drawExample()));
stage.addEventListener('click', () => {
  if (!current) $('file').click(); // a large target for the mouse; the labelled button is there for the rest
});

let depth = 0; // dragenter and dragleave come for every element that is passed
addEventListener('dragenter', (event) => {
  event.preventDefault();
  depth++;
  stage.classList.add('over');
});
addEventListener('dragleave', () => {
  if (--depth <= 0) depth = 0, stage.classList.remove('over');
});
addEventListener('dragover', (event) => event.preventDefault());
addEventListener('drop', (event) => {
  event.preventDefault();
  depth = 0;
  stage.classList.remove('over');
  if (event.dataTransfer.files.length) offer(event.dataTransfer.files);
  else complain('Only files can be dropped here. Save the image first, or copy and paste it.');
});
addEventListener('paste', (event) => {
  if (!event.clipboardData?.files.length) return;
  event.preventDefault();
  offer(event.clipboardData.files);
});

/* `told` is called with each new image, or null. */
export function watchImage(told) {
  changed = told;
}
