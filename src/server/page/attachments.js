// SPDX-License-Identifier: Apache-2.0
/* Images on their way into the conversation: dropped, pasted, chosen, photographed, from an address, drawn here. They wait as
 * thumbnails until the next question takes them along; those that were sent stay beside them, to be looked at again. */
import { thumbButton } from './dom.js';
import { drawExample } from './example.js';
import { fetchPreview } from './api.js';
import { deleteImage, loadImage, newId, saveImage } from './store.js';
import { shownImage, showImage } from './viewer.js';
import { count } from './words.js';

const $ = (id) => document.getElementById(id);
const stage = $('stage');
const tray = $('tray');

const EXTENSIONS = /\.(jpe?g|png|webp|gif|hei[cf]|avif|tiff?|bmp|p[bgpn]m)$/i;
const MOST_IMAGES = 16; // of one conversation

let sent = []; // images of the turns
let pending = []; // of the next one
let changed = () => {};

export const pendingImages = () => pending;
export const allImages = () => [...sent, ...pending];

export function readAsDataUrl(file) {
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

/* ---- thumbnails ---- */

function thumbnail(image, i) {
  const waits = image.waiting ? ', goes with the next question' : '';
  const button = thumbButton(image, `Show image ${i + 1}, ${image.name || 'pasted'}${waits}`, () => look(image));
  button.classList.toggle('pending', Boolean(image.waiting));
  button.setAttribute('aria-pressed', String(image === shownImage()));
  return button;
}

function showTray() {
  const all = allImages();
  tray.hidden = all.length < 2;
  tray.replaceChildren(...(all.length < 2 ? [] : all.map(thumbnail)));
  const shown = shownImage();
  $('remove').hidden = !pending.includes(shown);
  $('file-label').textContent = all.length ? 'Add an image' : 'Choose an image';
}

export function look(image) {
  showImage(image || null);
  showTray();
}

/* ---- in and out ---- */

async function previewOf(image) {
  const { blob, width, height } = await fetchPreview(await readAsDataUrl(image.file));
  Object.assign(image, { url: URL.createObjectURL(blob), preview: blob, unshown: false, width, height });
  await saveImage({ id: image.id, file: image.file, preview: blob });
  if (image === shownImage()) showImage(image);
  showTray();
}

const shows = (url) => new Promise((resolve) => {
  const probe = new Image();
  probe.onload = () => resolve(true);
  probe.onerror = () => resolve(false);
  probe.src = url;
});

/* Asks the server for a preview of what the browser cannot show (HEIC, TIFF). If the server cannot read it either, the next
 * question reports that. */
async function seeToPreview(image) {
  if (await shows(image.url)) return;
  image.unshown = true;
  if (image === shownImage()) showImage(null), look(image);
  await previewOf(image).catch(() => {});
}

function add(file, address = '') {
  const image = { id: newId(), name: file?.name || address.split('/').pop(), size: file?.size || 0, file,
    address, width: 0, height: 0, url: file ? URL.createObjectURL(file) : '', waiting: true };
  pending.push(image);
  saveImage({ id: image.id, file, preview: null }).catch(() => {});
  look(image);
  changed(image);
  if (file) seeToPreview(image);
  return image;
}

const isPdf = (file) => file.type === 'application/pdf' || /\.pdf$/i.test(file.name);
const isTiff = (file) => file.type === 'image/tiff' || /\.tiff?$/i.test(file.name);
const roomLeft = () => MOST_IMAGES - allImages().length;

/* The server draws the pages of a PDF or a TIFF; each becomes an image of its own. */
async function addPages(file) {
  const url = await readAsDataUrl(file);
  let pages = 1, added = 0;
  for (let page = 1; page <= pages && roomLeft() > 0; page++) {
    complain(`Drawing page ${page}${pages > 1 ? ` of ${pages}` : ''} of ${file.name} …`);
    const drawn = await fetchPreview(url, page);
    pages = drawn.pages;
    if (roomLeft() <= 0) break; // others came meanwhile
    added++;
    add(new File([drawn.blob], `${file.name}, page ${page}.jpg`, { type: 'image/jpeg' }));
  }
  if (!added) return complain(`A conversation has at most ${MOST_IMAGES} images: ${file.name} was not added.`);
  complain(added < pages ? `A conversation has at most ${MOST_IMAGES} images: the first ${added} of ${count(pages)} pages of ${file.name} were added.` : '');
}

/* A TIFF of one page is an image like others. */
async function addTiff(file) {
  const { pages } = await fetchPreview(await readAsDataUrl(file)).catch(() => ({ pages: 0 }));
  if (pages > 1) return addPages(file);
  if (roomLeft() > 0) add(file);
}

async function addDocuments(files) {
  for (const file of files)
    await (isPdf(file) ? addPages : addTiff)(file).catch((error) => complain(`${file.name} was not added: ${error.message}`));
}

/* Returns the message about files that are not added, or '' if all are. */
function leftOut(images, others, room) {
  if (others.length) return `${others[0].name || 'This'} is not an image and was not added. Choose a JPEG, PNG, WebP, GIF, HEIC, AVIF, TIFF, BMP or PDF file.`;
  if (images.length > room) return `A conversation has at most ${MOST_IMAGES} images: ${count(images.length - room)} were not added.`;
  return '';
}

async function offer(files) {
  if (document.body.classList.contains('text-only')) return;
  const documents = [...files].filter((file) => isPdf(file) || isTiff(file));
  const images = [...files].filter((file) => !documents.includes(file) && (file.type.startsWith('image/') || EXTENSIONS.test(file.name)));
  const others = [...files].filter((file) => !documents.includes(file) && !images.includes(file));
  const room = roomLeft();
  const wrong = leftOut(images, others, room);
  complain(wrong);
  for (const file of images.slice(0, room)) add(file);
  await addDocuments(documents);
  if (documents.length && wrong) complain(wrong);
}

function removePending(image) {
  pending = pending.filter((other) => other !== image);
  URL.revokeObjectURL(image.url);
  deleteImage(image.id).catch(() => {});
  look(allImages().at(-1));
  changed(null);
}

/* The pending images belong to a turn from now on. */
export function takePending() {
  const taken = pending;
  for (const image of taken) image.waiting = false;
  sent.push(...taken);
  pending = [];
  showTray();
  return taken;
}

/* Returns the images of a removed turn to the next question. */
export function giveBack(images) {
  sent = sent.filter((image) => !images.includes(image));
  for (const image of images) image.waiting = true;
  pending = [...images, ...pending];
  look(allImages().at(-1));
}

/* Shows the images of another conversation, as far as they are stored. */
export async function setImages(ofTurns, ofDraft) {
  const revive = async (kept) => {
    if (kept.file || kept.url) return kept;
    const stored = await loadImage(kept.id).catch(() => null);
    const blob = stored?.preview || stored?.file;
    return { ...kept, file: stored?.file || null, preview: stored?.preview, url: blob ? URL.createObjectURL(blob) : '', unshown: !blob };
  };
  complain('');
  sent = await Promise.all(ofTurns.map(revive));
  pending = (await Promise.all(ofDraft.map(revive))).map((image) => Object.assign(image, { waiting: true }));
  look(allImages().at(-1));
  return { sent, pending };
}

/* What is kept of an image with its conversation; its file lies apart. */
export const keptOf = ({ id, name, size, width, height, seen, address }) => ({ id, name, size, width, height, seen, address });

/* ---- the ways in ---- */

for (const id of ['file', 'photo'])
  $(id).addEventListener('change', (event) => {
    offer(event.target.files);
    event.target.value = ''; // the same file chosen again is a change too
  });
$('remove').addEventListener('click', () => {
  removePending(shownImage());
  $('file').focus();
});
$('example').addEventListener('click', async () => add(await drawExample()));
stage.addEventListener('click', () => {
  if (!shownImage()) $('file').click(); // a large target for the mouse; the labelled button is there for the rest
});

$('address-open').addEventListener('click', () => {
  const form = $('address-form');
  form.hidden = !form.hidden;
  $('address-open').setAttribute('aria-expanded', String(!form.hidden));
  if (!form.hidden) $('address').focus();
});
$('address-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const address = $('address').value.trim();
  if (!/^https?:\/\//i.test(address)) return complain('An address begins with http:// or https://.');
  complain('');
  const image = { address, file: null };
  try {
    const { blob, width, height } = await fetchPreview(address);
    const added = add(null, address);
    Object.assign(added, { url: URL.createObjectURL(blob), preview: blob, width, height });
    saveImage({ id: added.id, file: null, preview: blob }).catch(() => {});
    look(null);
    look(added);
    $('address').value = '';
    $('address-form').hidden = true;
    $('address-open').setAttribute('aria-expanded', 'false');
  } catch (error) {
    complain(`The server did not fetch ${image.address}: ${error.message}`);
  }
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

/* Calls `told` with each added image, and with null when one is removed. */
export function watchImages(told) {
  changed = told;
}
