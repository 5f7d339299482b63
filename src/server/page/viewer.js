// SPDX-License-Identifier: Apache-2.0
/* The large view of one image: its size, boxes over it, zoom and pan by mouse, touch and keyboard. */
import { bytes, count } from './words.js';

const $ = (id) => document.getElementById(id);
const stage = $('stage');
const frame = $('frame');
const preview = $('preview');
const boxLayer = $('boxes');
const MAX_LABELS = 12; // further boxes show only their numbers; the list has their labels
const MAX_ZOOM = 8;

let current = null;
let zoom = 1, left = 0, top = 0; // the factor over the fitted size, and the offset in pixels

export const shownImage = () => current;

/* ---- facts ---- */

export function showFacts() {
  if (!current) return;
  const { name, size, width, height, seen } = current;
  const facts = [name || 'Pasted image'];
  if (width) facts.push(`${count(width)} × ${count(height)} pixels`);
  if (size) facts.push(bytes(size));
  if (seen) {
    const scaled = seen.used_width !== seen.width || seen.used_height !== seen.height;
    facts.push(`${scaled ? `the model saw ${count(seen.used_width)} × ${count(seen.used_height)}` : 'seen at full size'}, ${count(seen.tokens)} tokens`);
  }
  $('facts').textContent = facts.join(' · ');
}

/* ---- boxes ---- */

function drawBox({ box: [x1, y1, x2, y2], label }, i) {
  const node = document.createElement('div');
  node.className = `box color-${i % 6}${y1 < 60 ? ' inside' : ''}${x1 > 700 ? ' right' : ''}`;
  Object.assign(node.style, { left: `${x1 / 10}%`, top: `${y1 / 10}%`, width: `${(x2 - x1) / 10}%`, height: `${(y2 - y1) / 10}%` });
  const tag = document.createElement('span');
  tag.textContent = label && i < MAX_LABELS ? `${i + 1} ${label}` : i + 1;
  node.append(tag);
  return node;
}

let shown; // the list on display; it may have grown since
/* Draws the boxes and highlights number `marked`. `lead` scrolls the image into view, as a phone needs. */
export function showBoxes(boxes, marked = -1, lead = false) {
  if (boxes !== shown) boxLayer.replaceChildren();
  shown = boxes;
  for (let i = boxLayer.childNodes.length; i < boxes.length; i++) boxLayer.append(drawBox(boxes[i], i));
  boxLayer.childNodes.forEach((node, i) => node.classList.toggle('marked', i === marked));
  if (lead) stage.scrollIntoView({ block: 'nearest' });
}

/* ---- zoom and pan ---- */

function applyZoom() {
  const limitX = (frame.offsetWidth * (zoom - 1)) / 2, limitY = (frame.offsetHeight * (zoom - 1)) / 2;
  left = Math.min(Math.max(left, -limitX), limitX);
  top = Math.min(Math.max(top, -limitY), limitY);
  frame.style.transform = zoom === 1 ? '' : `translate(${left}px, ${top}px) scale(${zoom})`;
  stage.classList.toggle('zoomed', zoom > 1);
  boxLayer.style.setProperty('--zoom', zoom);
  $('zoom-out').disabled = zoom === 1;
  $('zoom-in').disabled = zoom >= MAX_ZOOM;
}

/* Zooms around the point (x, y) of the window, by default the center of the stage. */
function zoomTo(wanted, x, y) {
  const before = zoom;
  zoom = Math.min(Math.max(wanted, 1), MAX_ZOOM);
  if (x !== undefined) {
    const at = stage.getBoundingClientRect();
    const dx = x - at.left - at.width / 2, dy = y - at.top - at.height / 2;
    left = dx - ((dx - left) * zoom) / before;
    top = dy - ((dy - top) * zoom) / before;
  } else {
    left = (left * zoom) / before;
    top = (top * zoom) / before;
  }
  applyZoom();
}

$('zoom-in').addEventListener('click', () => zoomTo(zoom * 1.5));
$('zoom-out').addEventListener('click', () => zoomTo(zoom / 1.5));
stage.addEventListener('wheel', (event) => {
  if (!current || !(event.ctrlKey || zoom > 1)) return; // at zoom 1 the wheel scrolls the page unless Ctrl is held
  event.preventDefault();
  zoomTo(zoom * Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
}, { passive: false });
stage.addEventListener('dblclick', (event) => current && zoomTo(zoom > 1 ? 1 : 2.5, event.clientX, event.clientY));

const fingers = new Map();
const spread = () => {
  const [a, b] = [...fingers.values()];
  return Math.hypot(a.x - b.x, a.y - b.y);
};
frame.addEventListener('pointerdown', (event) => {
  fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  if (zoom > 1 || fingers.size > 1) frame.setPointerCapture(event.pointerId);
});
frame.addEventListener('pointermove', (event) => {
  const last = fingers.get(event.pointerId);
  if (!last) return;
  const before = fingers.size === 2 && spread();
  fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  if (before) {
    const [a, b] = [...fingers.values()];
    zoomTo((zoom * spread()) / before, (a.x + b.x) / 2, (a.y + b.y) / 2);
  } else if (zoom > 1) {
    left += event.clientX - last.x;
    top += event.clientY - last.y;
    applyZoom();
  }
});
for (const event of ['pointerup', 'pointercancel', 'lostpointercapture']) frame.addEventListener(event, (e) => fingers.delete(e.pointerId));
stage.addEventListener('keydown', (event) => {
  if (!current) return;
  const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
  if (event.key === '+' || event.key === '=') zoomTo(zoom * 1.5);
  else if (event.key === '-') zoomTo(zoom / 1.5);
  else if (event.key === '0') zoomTo(1);
  else if (step && zoom > 1) {
    left += step[0];
    top += step[1];
    applyZoom();
  } else return;
  event.preventDefault();
});

/* ---- which image ---- */

preview.addEventListener('dragstart', (event) => event.preventDefault());
preview.addEventListener('load', () => {
  if (!current) return;
  if (!current.width) Object.assign(current, { width: preview.naturalWidth, height: preview.naturalHeight });
  showFacts();
  applyZoom();
});
preview.addEventListener('error', () => {
  if (!current || current.url !== preview.src) return;
  preview.hidden = true;
  $('no-preview').hidden = false;
  current.unshown = true;
});

/* Shows an image, {name, size, width, height, url, seen}, or none if it is null. */
export function showImage(image) {
  $('empty').hidden = Boolean(image);
  frame.hidden = $('facts').hidden = $('zoom').hidden = !image;
  stage.tabIndex = image ? 0 : -1;
  if (image === current && image?.url === preview.getAttribute('src')) return showFacts();
  current = image;
  zoom = 1, left = top = 0;
  applyZoom();
  showBoxes([]);
  $('no-preview').hidden = !image?.unshown;
  preview.hidden = !image || Boolean(image.unshown);
  if (!image) return preview.removeAttribute('src');
  preview.src = image.url;
  preview.alt = image.name ? `The image ${image.name}` : 'The image';
  showFacts();
}
