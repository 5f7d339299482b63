// SPDX-License-Identifier: Apache-2.0
/* The images of a conversation. New ones (dropped, pasted, chosen, photographed, fetched from a URL or drawn as an example) are
 * pending thumbnails until the next question sends them. Images already sent keep their thumbnails. */
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
const MAX_IMAGES = 16; // per conversation

let sent = []; // images of earlier turns
let pending = []; // images of the next turn
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
  const waits = image.waiting ? ', sent with the next question' : '';
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

/* ---- adding and removing ---- */

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

/* Requests a preview from the server if the browser cannot show the image (HEIC, TIFF). If the server cannot read it either, the
 * next question reports that. */
async function ensurePreview(image) {
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
  if (file) ensurePreview(image);
  return image;
}

const isPdf = (file) => file.type === 'application/pdf' || /\.pdf$/i.test(file.name);
const isTiff = (file) => file.type === 'image/tiff' || /\.tiff?$/i.test(file.name);
const roomLeft = () => MAX_IMAGES - allImages().length;

/* Returns whether another image may be added, and complains if not. */
function hasRoom() {
  complain(roomLeft() > 0 ? '' : `A conversation has at most ${MAX_IMAGES} images.`);
  return roomLeft() > 0;
}

/* Adds each page of a PDF or TIFF as an image; the server renders them. */
async function addPages(file) {
  const url = await readAsDataUrl(file);
  let pages = 1, added = 0;
  for (let page = 1; page <= pages && roomLeft() > 0; page++) {
    complain(`Drawing page ${page}${pages > 1 ? ` of ${pages}` : ''} of ${file.name} …`);
    const drawn = await fetchPreview(url, page);
    pages = drawn.pages;
    if (roomLeft() <= 0) break; // other images were added meanwhile
    added++;
    add(new File([drawn.blob], `${file.name}, page ${page}.jpg`, { type: 'image/jpeg' }));
  }
  if (!added) return complain(`A conversation has at most ${MAX_IMAGES} images: ${file.name} was not added.`);
  complain(added < pages ? `A conversation has at most ${MAX_IMAGES} images: the first ${added} of ${count(pages)} pages of ${file.name} were added.` : '');
}

/* A TIFF of one page is added as it is, without conversion. */
async function addTiff(file) {
  const { pages } = await fetchPreview(await readAsDataUrl(file)).catch(() => ({ pages: 0 }));
  if (pages > 1) return addPages(file);
  if (roomLeft() > 0) add(file);
}

async function addDocuments(files) {
  for (const file of files)
    await (isPdf(file) ? addPages : addTiff)(file).catch((error) => complain(`${file.name} was not added: ${error.message}`));
}

/* Returns the message about files that cannot be added, or '' if all can. */
function leftOut(images, others, room) {
  if (others.length) return `${others[0].name || 'This'} is not an image and was not added. Choose a JPEG, PNG, WebP, GIF, HEIC, AVIF, TIFF, BMP or PDF file.`;
  if (images.length > room) return `A conversation has at most ${MAX_IMAGES} images: ${count(images.length - room)} were not added.`;
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

/* Moves the pending images to a turn and returns them. */
export function takePending() {
  const taken = pending;
  for (const image of taken) image.waiting = false;
  sent.push(...taken);
  pending = [];
  showTray();
  return taken;
}

/* Makes the images of a removed turn pending again. */
export function giveBack(images) {
  sent = sent.filter((image) => !images.includes(image));
  for (const image of images) image.waiting = true;
  pending = [...images, ...pending];
  look(allImages().at(-1));
}

/* Copies images for another conversation. Each copy has an id of its own in storage, so that deleting one conversation leaves the
 * images of the other. */
export function copyImages(images) {
  const copies = images.map((image) => ({ ...image, id: newId() }));
  for (const { id, file, preview } of copies) saveImage({ id, file, preview: preview || null }).catch(() => {});
  return copies;
}

/* Replaces all images by those of another conversation and loads their files from storage. */
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

/* The fields of an image that are stored with its conversation; its file is stored separately. */
export const keptOf = ({ id, name, size, width, height, seen, address }) => ({ id, name, size, width, height, seen, address });

/* ---- controls ---- */

for (const id of ['file', 'photo'])
  $(id).addEventListener('change', (event) => {
    offer(event.target.files);
    event.target.value = ''; // so that choosing the same file again fires the event
  });
$('remove').addEventListener('click', () => {
  removePending(shownImage());
  $('file').focus();
});
$('example').addEventListener('click', async () => {
  if (hasRoom()) add(await drawExample());
});
stage.addEventListener('click', () => {
  if (!shownImage()) $('file').click(); // a large mouse target; the labeled button serves keyboard and screen reader
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
  if (!/^https?:\/\//i.test(address)) return complain('The URL must begin with http:// or https://.');
  if (!hasRoom()) return;
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
    complain(`The server could not fetch ${address}: ${error.message}`);
  }
});

let depth = 0; // dragenter and dragleave fire for every element that the pointer crosses
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

/* Calls `onChange` with each added image, and with null when one is removed. */
export function watchImages(onChange) {
  changed = onChange;
}
