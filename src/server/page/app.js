// SPDX-License-Identifier: Apache-2.0
/* The page: images, and a conversation about them. At most one question runs at a time. */
import { ApiError, ask } from './api.js';
import { allImages, copyImages, giveBack, keptOf, look, pendingImages, readAsDataUrl, setImages, takePending, watchImages } from './attachments.js';
import { findPrompt } from './boxes.js';
import { showCode } from './code.js';
import { showList, watchConversations } from './conversations.js';
import { connect, isReady, isToy, refreshServer, lost, modelName, watchServer } from './server.js';
import { detail, format, requestFields, systemMessages } from './settings.js';
import { loadConversation, newId, saveConversation } from './store.js';
import './theme.js';
import { Turn, keepingEnd } from './turns.js';
import { shownImage, showBoxes, showFacts, showImage } from './viewer.js';
import { reader, say } from './voice.js';
import { bytes, plural } from './words.js';

const $ = (id) => document.getElementById(id);
const MAX_BODY = 64 * 2 ** 20; // the server's limit for a request body, in bytes
const OPEN = 'eyelet-open'; // storage key: the conversation that a reload opens
const SAVE_MS = 1000;
const PHOTO_PIXELS = 1000; // the demo model was trained on images with shorter sides
const question = $('question');

let conversation; // as stored: {id, title, created, updated, model, turns, draft}
let turns = []; // the Turn objects on the page; saving copies their data to conversation.turns
let finding = false;
let editing = null; // the turn whose question is being edited
let running = null; // the AbortController of the running question
let cameFrom = null; // the element that had the focus before the question was sent
let failedForKey = null; // retries the question that failed for want of a key

/* ---- storage ---- */

const emptyConversation = () =>
  ({ id: newId(), title: 'New conversation', created: Date.now(), updated: Date.now(), model: '', turns: [], draft: { text: '', images: [] } });

function keptConversation() {
  const keptTurn = (kept) => ({ ...kept, images: kept.images.map(keptOf), target: kept.target && keptOf(kept.target) });
  return { ...conversation, turns: turns.filter((turn) => !turn.failed).map((turn) => keptTurn(turn.kept)),
    draft: { text: question.value, images: pendingImages().map(keptOf) } };
}

let saving = 0; // the timer of a save that waits
let savedAt = 0;
let opening = false; // a stored conversation is not completely on the page yet

function forgetSave() {
  clearTimeout(saving);
  saving = 0;
}

async function saveAtOnce() {
  forgetSave();
  savedAt = Date.now();
  await saveConversation(keptConversation()).catch(() => {});
}

/* Saves the conversation, at most once a second unless `now` is set. */
function save(now) {
  if (opening) return;
  forgetSave();
  const wait = now ? 0 : Math.max(0, savedAt + SAVE_MS - Date.now());
  saving = setTimeout(async () => {
    await saveAtOnce();
    if (now) showList(conversation.id);
  }, wait);
}

function remember() {
  conversation.updated = Date.now();
  conversation.model = modelName() || '';
  if (!conversation.named && turns.length) conversation.title = turns[0].kept.shown.slice(0, 80);
  save(true);
}

function storeOpen(id) {
  try {
    sessionStorage.setItem(OPEN, id);
    localStorage.setItem(OPEN, id);
  } catch { /* storage is disabled: a reload starts a new conversation */ }
}

function storedOpen() {
  try {
    return sessionStorage.getItem(OPEN) || localStorage.getItem(OPEN);
  } catch {
    return null;
  }
}

/* ---- requests ---- */

async function urlOf(image) {
  if (image.address) return image.address;
  image.dataUrl ||= await readAsDataUrl(image.file).catch(() => {
    throw new ApiError('file', `The browser can no longer read ${image.name || 'the image'}. It may have been moved or deleted.`);
  });
  return image.dataUrl;
}

async function userMessage({ text, images }) {
  if (!images.length) return { role: 'user', content: text };
  const parts = [];
  for (const image of images) parts.push({ type: 'image_url', image_url: { url: await urlOf(image), detail: detail() } });
  return { role: 'user', content: [...parts, { type: 'text', text }] };
}

/* Returns the messages of a request: earlier turns and this one. If kept.alone is set (Find with several images), only the image
 * on display is sent, since boxes do not say which image they refer to. */
async function messagesOf(kept) {
  if (kept.alone) return [...systemMessages(), await userMessage({ text: kept.text, images: [kept.target] })];
  const messages = systemMessages();
  for (const turn of turns) {
    if (turn.kept === kept) break;
    if (turn.failed || turn.kept.alone) continue;
    messages.push(await userMessage(turn.kept), { role: 'assistant', content: turn.kept.answer });
  }
  return [...messages, await userMessage(kept)];
}

async function bodyOf(kept) {
  const messages = await messagesOf(kept);
  if (kept.goesOn) messages.push({ role: 'assistant', content: kept.answer }, { role: 'user', content: 'Go on exactly where you stopped.' });
  return { model: modelName(), messages, ...requestFields({ exact: kept.exact, free: kept.find || kept.goesOn }) };
}

function checkSize(body) {
  const size = body.messages.flatMap(({ content }) => (Array.isArray(content) ? content : [])).reduce((n, part) => n + (part.image_url?.url.length || 0), 0);
  if (size > MAX_BODY - 2 ** 20)
    throw new ApiError('size', `The images of this conversation are too large to send: ${bytes(size * 0.75)}, and the server accepts about ${bytes(MAX_BODY * 0.74)}.`);
}

/* ---- one question ---- */

/* While an answer arrives, Stop replaces Ask, and the focus moves from a pressed button to Stop and back. */
function busy(now) {
  const had = document.activeElement;
  if (now) cameFrom = had;
  $('send').hidden = now;
  $('stop').hidden = !now;
  showButtons();
  if (now && had.localName === 'button') $('stop').focus();
  if (!now && had === $('stop')) (cameFrom.isConnected && !cameFrom.hidden ? cameFrom : question).focus();
}

function waitingText(since, kept) {
  const what = !isReady() ? 'Waiting for the model to load' : kept.images.length ? `Looking at ${kept.images.length > 1 ? 'the images' : 'the image'}` : 'Reading the question';
  const s = (performance.now() - since) / 1000;
  return s < 2 ? `${what} …` : `${what} … ${Math.floor(s)} s`;
}

/* Streams an answer into its turn and stores its text, usage and finish reason there. */
async function stream(body, turn, signal, spoken) {
  const { kept } = turn;
  const since = performance.now();
  const times = (kept.times = { first: 0, last: 0 });
  const clock = setInterval(() => times.first || turn.wait(waitingText(since, kept)), 500);
  turn.wait(waitingText(since, kept));
  let text = kept.goesOn ? kept.answer : '', thought = '', painted = 0;
  const paint = () => {
    painted = 0;
    keepingEnd(() => {
      if (thought) turn.think(thought);
      if (text) turn.grow(text);
    });
    spoken?.grow(text);
    save();
  };
  try {
    for await (const piece of ask(body, signal)) {
      if (piece.text || piece.thought) {
        times.last = (performance.now() - since) / 1000;
        times.first ||= times.last;
        if (piece.thought) times.thought = times.last;
        text += piece.text || '';
        thought += piece.thought || '';
        painted ||= requestAnimationFrame(paint);
      }
      kept.usage = piece.usage || kept.usage;
      times.decode ||= piece.timings?.decode_s;
      kept.reason = piece.finish || kept.reason;
    }
  } finally {
    clearInterval(clock);
    cancelAnimationFrame(painted);
    kept.answer = text;
    if (thought) turn.think(thought);
    spoken?.grow(text);
  }
}

/* Stores with each image what usage.images says about it: its size and the size that the model saw. The server lists the images
 * of the whole request in order. */
function noteSeen(kept, usage) {
  const images = kept.alone ? [kept.target] : turns.slice(0, turns.findIndex((turn) => turn.kept === kept) + 1).filter((turn) => !turn.failed && !turn.kept.alone).flatMap((turn) => turn.kept.images);
  usage?.images?.forEach((seen, i) => {
    if (images[i]) Object.assign(images[i], { seen, width: seen.width, height: seen.height });
  });
  showFacts();
}

const actions = { again, edit, goOn, code };

function addTurn(kept) {
  const turn = new Turn(kept, actions);
  turns.push(turn);
  return turn;
}

/* Sends a turn's question and streams the answer into the turn. */
async function answer(turn) {
  const { kept } = turn;
  const stop = new AbortController();
  const spoken = kept.find ? null : reader(); // a screen reader should not read out JSON
  running = stop;
  if (kept.find) showBoxes([]);
  busy(true);
  const here = () => turns.includes(turn); // false once another conversation is open
  kept.reason = 'stopped'; // shown if the page is reloaded before the answer ends
  try {
    const body = await bodyOf(kept);
    checkSize(body);
    await stream(body, turn, stop.signal, spoken);
    if (!here()) return;
    kept.goesOn = false;
    noteSeen(kept, kept.usage); // before finish(), which needs the image size to show boxes in pixels
    keepingEnd(() => turn.finish());
    warnOfOthers(kept.answer);
    if (spoken) spoken.end('End of the answer');
    else say(`${plural(turn.boxes.length, 'thing')} found: ${turn.boxes.map(({ label }) => label).join(', ')}`);
  } catch (error) {
    if (!here()) return;
    if (error.name === 'AbortError') {
      kept.reason = 'stopped';
      keepingEnd(() => turn.finish());
      say('Stopped');
    } else {
      turn.failed = true;
      keepingEnd(() => turn.fail(error));
      if (error.kind === 'key') failedForKey = () => again(turn);
      lost(error);
    }
  } finally {
    if (here()) {
      running = null;
      remember();
      busy(false);
      refreshServer();
    }
  }
}

/* Asks a question. `shown` is its text on the page; `find` requests boxes; `exact` sets temperature 0. */
function put(text, { shown = text, find = false, exact = false } = {}) {
  if (running) return;
  const images = takePending();
  const target = shownImage();
  const alone = find && allImages().length > 1;
  const kept = { text, shown, find, exact, alone, held: find ? 'text' : format(), images, target, answer: '', thinking: '', reason: '', usage: null, times: null };
  const turn = addTurn(kept);
  turn.arrive();
  storeOpen(conversation.id);
  answer(turn);
}

function stopAnswer() {
  running?.abort();
}

/* ---- buttons of a turn ---- */

function dropFrom(turn) {
  const at = turns.indexOf(turn);
  const gone = turns.splice(at);
  gone.forEach((other) => other.remove());
  return gone;
}

/* Repeats a turn's question; the turn and all later ones are replaced. */
function again(turn) {
  if (running) return;
  const [first] = dropFrom(turn);
  const { kept } = first;
  answer(addTurn({ ...kept, answer: '', thinking: '', reason: '', usage: null, goesOn: false }));
}

/* Puts a turn's question back into the input field. Sending it replaces the turn and all later ones. */
function edit(turn) {
  if (running) return;
  editing = turn;
  setFinding(turn.kept.find);
  question.value = turn.kept.find ? turn.kept.shown.replace(/^Find: /, '') : turn.kept.text;
  fitQuestion();
  $('editing').hidden = false;
  question.focus();
}

function endEditing() {
  editing = null;
  $('editing').hidden = true;
}

function goOn(turn) {
  if (running) return;
  const [first] = dropFrom(turn);
  answer(addTurn({ ...first.kept, goesOn: true, usage: null }));
}

async function code(turn) {
  const body = await bodyOf(turn.kept);
  showCode(body, (url) => allImages().find((image) => image.dataUrl === url)?.name);
}

/* ---- conversation ---- */

function leaveConversation() {
  stopAnswer();
  if (saving) saveAtOnce(); // else the timer would save the next conversation
  running = null;
  turns.forEach((turn) => turn.remove());
  turns = [], failedForKey = null;
  endEditing();
  setFinding(false);
  showBoxes([]);
}

/* Starts a new conversation, with `images` as its draft. */
async function beginAnew(images = []) {
  leaveConversation();
  conversation = emptyConversation();
  await setImages([], copyImages(images));
  busy(false);
  showList(conversation.id);
}

/* Puts the images and turns of a stored conversation on the page. */
async function showTurns(kept) {
  const ofTurns = kept.turns.flatMap((turn) => turn.images);
  const { sent } = await setImages(ofTurns, kept.draft.images);
  const byId = new Map(sent.map((image) => [image.id, image]));
  for (const turn of kept.turns) {
    const made = addTurn({ ...turn, images: turn.images.map(({ id: image }) => byId.get(image)), target: turn.target ? byId.get(turn.target.id) || null : null });
    if (turn.thinking) made.think(turn.thinking);
    made.finish();
  }
}

async function openConversation(id) {
  const kept = await loadConversation(id).catch(() => null);
  if (!kept) return false;
  leaveConversation();
  conversation = kept;
  opening = true;
  try {
    await showTurns(kept);
    question.value = kept.draft.text;
  } finally {
    opening = false;
  }
  fitQuestion();
  busy(false);
  storeOpen(id);
  showList(id);
  $('turns').scrollTop = $('turns').scrollHeight;
  return true;
}

function setFinding(now) {
  finding = now;
  $('find').setAttribute('aria-pressed', String(now));
  $('question-label').textContent = now ? 'What to find' : 'Your question';
  question.placeholder = now ? 'red circle, square' : allImages().length ? 'What is this?' : 'Ask something';
  $('send').textContent = now ? 'Find' : 'Ask';
}

function showButtons() {
  for (const id of ['describe', 'read', 'find']) $(id).disabled = !allImages().length || Boolean(running);
  $('anew').hidden = !turns.length;
  $('hello').hidden = Boolean(turns.length);
}

function fitQuestion() {
  question.style.height = 'auto';
  question.style.height = `${question.scrollHeight + 2}px`;
}

/* Highlights the note about the demo model when a photo is added: that model knows no photos. */
async function warnOfPhotos(image) {
  if (!isToy() || !image?.file) return;
  const bitmap = await createImageBitmap(image.file).catch(() => null);
  const photo = !bitmap || Math.max(bitmap.width, bitmap.height) > PHOTO_PIXELS || /^(IMG|DSC|PXL)[_-]/i.test(image.name);
  bitmap?.close();
  $('toy').classList.toggle('asked', photo);
}

/* Highlights the note when the demo model says that it does not know what the image shows. */
function warnOfOthers(said) {
  if (isToy() && said === 'I only know coloured shapes and printed words.') $('toy').classList.add('asked');
}

$('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = question.value.trim();
  if (running) return;
  if (!text) {
    question.focus();
    return;
  }
  if (editing) {
    const images = dropFrom(editing).flatMap(({ kept }) => kept.images);
    giveBack(images);
    endEditing();
  }
  question.value = '';
  fitQuestion();
  if (finding) put(findPrompt(text.replaceAll("'", '’')), { shown: `Find: ${text}`, find: true, exact: true });
  else put(text);
  setFinding(false);
});
question.addEventListener('input', () => {
  fitQuestion();
  save();
});
question.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $('ask').requestSubmit();
});
addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || document.querySelector('dialog[open]')) return;
  if (running) stopAnswer();
  else if (editing) endEditing();
  else if (finding) setFinding(false);
});
$('stop').addEventListener('click', stopAnswer);
const several = (one, many) => (pendingImages().length > 1 ? many : one);
$('describe').addEventListener('click', () => put(several('Describe this image.', 'Describe these images.'), { shown: several('Describe this image', 'Describe these images') }));
$('read').addEventListener('click', () => put(several('Read all the text in the image.', 'Read all the text in the images.'), { shown: 'Read the text', exact: true }));
$('find').addEventListener('click', () => {
  setFinding(!finding);
  question.focus();
});
$('anew').addEventListener('click', async () => {
  await beginAnew(allImages());
  question.focus();
});
$('edit-cancel').addEventListener('click', () => {
  endEditing();
  question.value = '';
  fitQuestion();
});

watchImages((image) => {
  setFinding(false);
  showButtons();
  save();
  if (!image) return;
  say(`Image ${image.name} chosen`);
  warnOfPhotos(image);
});
watchConversations((id, title) => {
  if (id === conversation.id && title) Object.assign(conversation, { title, named: true });
  else if (id && id !== conversation.id) openConversation(id);
}, (deleted) => {
  if (deleted) forgetSave();
  return beginAnew();
});
addEventListener('pagehide', () => saving && saveAtOnce());
watchServer(() => {
  $('key-form').hidden = true;
  const retry = failedForKey;
  failedForKey = null;
  if (retry) retry();
});

/* The conversation fills the window below the header, whose height changes with its notices. */
new ResizeObserver(([{ target }]) => document.body.style.setProperty('--head', `${target.offsetHeight}px`)).observe(document.querySelector('header'));

conversation = emptyConversation();
showImage(null);
setFinding(false);
showButtons();
connect();
const last = storedOpen();
if (!last || !(await openConversation(last))) {
  storeOpen(conversation.id);
  showList(conversation.id);
}
look(shownImage());
