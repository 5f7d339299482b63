// SPDX-License-Identifier: Apache-2.0
/* The page: an image, a conversation about it, and one question at a time on its way. */
import { ApiError, ask } from './api.js';
import { findPrompt } from './boxes.js';
import { image, showBoxes, showFacts, watchImage } from './image.js';
import { connect, isReady, lookAgain, lost, modelName, watchServer } from './server.js';
import './theme.js';
import { Turn, keepingEnd } from './turns.js';
import { reader, say } from './voice.js';
import { bytes, plural } from './words.js';

const $ = (id) => document.getElementById(id);
const MAX_BODY = 64 * 2 ** 20; // the server's own limit
const question = $('question');

let messages = []; // the conversation as the API takes it
let turns = [];
let finding = false;
let running = null; // stops the question on its way
let cameFrom = null; // what had the focus when the question was put
let failedForKey = null; // asked again when there is a key

/* ---- what is sent ---- */

async function userMessage(text) {
  if (!image() || messages.length) return { role: 'user', content: text };
  const url = await image().dataUrl.catch(() => {
    throw new ApiError('size', 'The image’s file could not be read. It may have been moved or deleted.');
  });
  return { role: 'user', content: [{ type: 'image_url', image_url: { url } }, { type: 'text', text }] };
}

/* The detail holds for the whole conversation: changing it makes the model look at the image anew. */
function withDetail(message) {
  if (!Array.isArray(message.content)) return message;
  const [{ image_url: image }, text] = message.content;
  return { ...message, content: [{ type: 'image_url', image_url: { ...image, detail: $('detail').value } }, text] };
}

function bodyOf(asked, exact) {
  const body = { model: modelName(), messages: [...messages, asked].map(withDetail) };
  if ($('longest').value) body.max_tokens = Number($('longest').value);
  if (exact || $('choice').value) body.temperature = 0;
  return body;
}

function checkSize(asked) {
  const size = image() && Array.isArray(asked.content) ? asked.content[0].image_url.url.length : 0;
  if (size > MAX_BODY - 2 ** 20)
    throw new ApiError('size', `This file of ${bytes(image().file.size)} is too large to send: the server takes about ${bytes(MAX_BODY * 0.74)}.`);
}

/* ---- one question ---- */

/* While the answer comes, Stop stands where Ask was; whoever pressed a button is led to it and back. */
function busy(now) {
  const had = document.activeElement;
  if (now) cameFrom = had;
  $('send').hidden = now;
  $('stop').hidden = !now;
  showButtons();
  if (now && had.localName === 'button') $('stop').focus();
  if (!now && had === $('stop')) (cameFrom.isConnected ? cameFrom : question).focus();
}

function waitingText(since) {
  const what = !isReady() ? 'Waiting for the model to load' : image() && !messages.length ? 'Looking at the image' : 'Reading the question';
  const s = (performance.now() - since) / 1000;
  return s < 2 ? `${what} …` : `${what} … ${Math.floor(s)} s`;
}

/* Tells a turn what comes in; gives the usage, why it ended, and when the first and the last piece came. */
async function stream(body, turn, signal, times, spoken) {
  const since = performance.now();
  const clock = setInterval(() => times.first || turn.wait(waitingText(since)), 500);
  turn.wait(waitingText(since));
  let text = '', painted = 0, usage = null, reason = '';
  const paint = () => {
    painted = 0;
    keepingEnd(() => turn.grow(text));
    spoken?.grow(text);
  };
  try {
    for await (const piece of ask(body, signal)) {
      if (piece.text) {
        times.last = (performance.now() - since) / 1000;
        times.first ||= times.last;
        text += piece.text;
        painted ||= requestAnimationFrame(paint);
      }
      usage = piece.usage || usage;
      times.decode ||= piece.timings?.decode_s;
      reason = piece.finish || reason;
    }
  } finally {
    clearInterval(clock);
    cancelAnimationFrame(painted);
    turn.text = text;
    spoken?.grow(text);
  }
  return { usage, reason };
}

function remember(asked, turn) {
  messages.push(asked, { role: 'assistant', content: turn.text });
}

/* Puts a question: `shown` is what the page calls it, `exact` asks for the likeliest words. */
async function put(text, { shown = text, find = false, exact = false } = {}) {
  if (running) return;
  const turn = new Turn(shown, find);
  const stop = new AbortController();
  const times = { first: 0, last: 0 };
  const spoken = find ? null : reader(); // nobody wants to hear JSON
  turns.push(turn);
  running = stop;
  if (find) showBoxes([]);
  busy(true);
  let asked;
  const here = () => turns.includes(turn); // not so when the conversation has been begun anew
  const again = () => {
    turns = turns.filter((other) => other !== turn);
    turn.remove();
    put(text, { shown, find, exact });
  };
  try {
    asked = await userMessage(text);
    checkSize(asked);
    const { usage, reason } = await stream(bodyOf(asked, exact), turn, stop.signal, times, spoken);
    remember(asked, turn);
    if (usage?.images?.length) showFacts(usage.images[0]); // first, since places in pixels need the image's size
    keepingEnd(() => turn.finish({ reason, usage, times }));
    if (spoken) spoken.end('End of the answer');
    else say(`${plural(turn.boxes.length, 'thing')} found: ${turn.boxes.map(({ label }) => label).join(', ')}`);
  } catch (error) {
    if (!here()) return;
    if (error.name === 'AbortError') {
      if (turn.text) remember(asked, turn);
      keepingEnd(() => turn.finish({ reason: 'stopped', times }));
      say('Stopped');
    } else {
      keepingEnd(() => turn.fail(error, again));
      if (error.kind === 'key') failedForKey = again;
      lost(error);
    }
  } finally {
    if (here()) {
      running = null;
      busy(false);
      lookAgain();
    }
  }
}

function stopAnswer() {
  running?.abort();
}

/* ---- conversation ---- */

function beginAnew() {
  stopAnswer();
  running = null;
  turns.forEach((turn) => turn.remove());
  turns = [], messages = [], failedForKey = null;
  showBoxes([]);
  busy(false);
}

function setFinding(now) {
  finding = now;
  $('find').setAttribute('aria-pressed', String(now));
  $('question-label').textContent = now ? 'What to find' : 'Your question';
  question.placeholder = now ? 'red circle, square' : image() ? 'What is this?' : 'Ask something';
  $('send').textContent = now ? 'Find' : 'Ask';
}

function showButtons() {
  for (const id of ['describe', 'read', 'find']) $(id).disabled = !image() || Boolean(running);
  $('anew').hidden = !turns.length;
  $('hello').hidden = Boolean(turns.length);
}

function fitQuestion() {
  question.style.height = 'auto';
  question.style.height = `${question.scrollHeight + 2}px`;
}

$('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = question.value.trim();
  if (running) return;
  if (!text) {
    question.focus();
    return;
  }
  question.value = '';
  fitQuestion();
  if (finding) put(findPrompt(text.replaceAll("'", '’')), { shown: `Find: ${text}`, find: true, exact: true });
  else put(text);
  setFinding(false);
});
question.addEventListener('input', fitQuestion);
question.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $('ask').requestSubmit();
});
addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  if (running) stopAnswer();
  else if (finding) setFinding(false);
});
$('stop').addEventListener('click', stopAnswer);
$('describe').addEventListener('click', () => put('Describe this image.', { shown: 'Describe this image' }));
$('read').addEventListener('click', () => put('Read all the text in the image.', { shown: 'Read the text', exact: true }));
$('find').addEventListener('click', () => {
  setFinding(!finding);
  question.focus();
});
$('anew').addEventListener('click', () => {
  beginAnew();
  question.focus();
});

watchImage((now) => {
  beginAnew();
  setFinding(false);
  if (now) say(`Image ${now.file.name} chosen`);
});
watchServer(() => {
  $('key-form').hidden = true;
  const again = failedForKey;
  failedForKey = null;
  if (again) again();
});
setFinding(false);
showButtons();
connect();
