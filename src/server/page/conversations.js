// SPDX-License-Identifier: Apache-2.0
/* The list of conversations: open, rename, delete, save as a file. */
import { exportJson, exportMarkdown } from './download.js';
import { deleteConversation, listConversations, loadConversation, saveConversation } from './store.js';

const $ = (id) => document.getElementById(id);
const list = $('conversations');
const panel = $('list');
const wide = matchMedia('(min-width: 1500px)');

let open = null; // id
let picked = () => {};
let anew = () => {};

function makeButton(text, onClick, label) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'quiet small';
  button.textContent = text;
  if (label) button.setAttribute('aria-label', label);
  button.addEventListener('click', onClick);
  return button;
}

const when = (time) => {
  const date = new Date(time);
  return date.toDateString() === new Date().toDateString() ? date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
    : date.toLocaleDateString([], { day: 'numeric', month: 'short', year: 'numeric' });
};

async function rename(entry, item) {
  const field = document.createElement('input');
  field.value = entry.title;
  field.setAttribute('aria-label', 'New name');
  let done = false;
  const finish = async (keep) => {
    if (done) return;
    done = true;
    if (keep && field.value.trim()) {
      const conversation = await loadConversation(entry.id);
      await saveConversation({ ...conversation, title: field.value.trim(), named: true });
      picked(entry.id === open ? entry.id : null, field.value.trim());
    }
    showList(open);
  };
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') finish(true);
    if (event.key === 'Escape') event.stopPropagation(), finish(false);
  });
  field.addEventListener('blur', () => finish(true));
  item.replaceChildren(field);
  field.focus();
  field.select();
}

/* Deleting asks once more, in its own place. */
function askToDelete(entry, acts) {
  const yes = makeButton('Delete it', async () => {
    await deleteConversation(entry.id);
    if (entry.id === open) anew();
    else showList(open);
  });
  yes.classList.add('danger');
  acts.replaceChildren(yes, makeButton('Keep it', () => showList(open)));
  yes.focus();
}

function itemOf(entry) {
  const item = document.createElement('li');
  const title = document.createElement('button');
  const time = document.createElement('span');
  const menu = document.createElement('details');
  const summary = document.createElement('summary');
  const acts = document.createElement('div');
  title.type = 'button';
  title.className = 'quiet title';
  title.textContent = entry.title;
  if (entry.id === open) title.setAttribute('aria-current', 'true');
  time.className = 'note';
  time.textContent = when(entry.updated);
  title.append(time);
  title.addEventListener('click', () => {
    if (!wide.matches) setPanel(false);
    picked(entry.id);
  });
  summary.textContent = '⋯';
  summary.setAttribute('aria-label', `More for ${entry.title}`);
  acts.className = 'acts';
  acts.append(makeButton('Rename', () => rename(entry, item)), makeButton('Markdown', async () => exportMarkdown(await loadConversation(entry.id)), 'Save as Markdown'),
    makeButton('JSON', async () => exportJson(await loadConversation(entry.id)), 'Save as JSON'), makeButton('Delete', () => askToDelete(entry, acts)));
  menu.append(summary, acts);
  item.append(title, menu);
  return item;
}

export async function showList(current) {
  open = current;
  const all = await listConversations();
  list.replaceChildren(...all.filter(({ n }) => n).map(itemOf));
  $('no-conversations').hidden = list.childNodes.length > 0;
}

function setPanel(now) {
  panel.hidden = !now;
  $('list-toggle').setAttribute('aria-expanded', String(now));
}

wide.addEventListener('change', () => setPanel(wide.matches));
setPanel(wide.matches);
$('list-toggle').addEventListener('click', () => setPanel(panel.hidden));
$('new').addEventListener('click', () => {
  if (!wide.matches) setPanel(false);
  anew();
});
addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !panel.hidden && !wide.matches) setPanel(false);
});

/* `onPick(id, newTitle)`: another one is to be opened, or the open one has a new title; `onNew`: an empty one. */
export function watchConversations(onPick, onNew) {
  picked = onPick;
  anew = onNew;
}
