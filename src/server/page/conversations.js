// SPDX-License-Identifier: Apache-2.0
/* The list of conversations, with buttons to open, rename, export and delete them. */
import { make, makeButton } from './dom.js';
import { exportJson, exportMarkdown } from './download.js';
import { deleteConversation, listConversations, loadConversation, saveConversation } from './store.js';

const $ = (id) => document.getElementById(id);
const list = $('conversations');
const panel = $('list');
const wide = matchMedia('(min-width: 1500px)');

let open = null; // the id of the open conversation
let picked = () => {};
let anew = () => {};

function listButton(text, onClick, label) {
  const button = makeButton('quiet small', text, onClick);
  if (label) button.setAttribute('aria-label', label);
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

/* Replaces the buttons of an entry by a question whether to delete it. */
function askToDelete(entry, acts) {
  const yes = listButton('Delete', async () => {
    await deleteConversation(entry.id);
    if (entry.id === open) anew(true);
    else showList(open);
  });
  yes.classList.add('danger');
  acts.replaceChildren(yes, listButton('Cancel', () => showList(open)));
  yes.focus();
}

function itemOf(entry) {
  const item = document.createElement('li');
  const title = makeButton('quiet title', entry.title, () => {
    if (!wide.matches) setPanel(false);
    picked(entry.id);
  });
  const menu = make('details');
  const summary = make('summary', '', '⋯');
  const acts = make('div', 'acts');
  if (entry.id === open) title.setAttribute('aria-current', 'true');
  title.append(make('span', 'note', when(entry.updated)));
  summary.setAttribute('aria-label', `More for ${entry.title}`);
  acts.append(listButton('Rename', () => rename(entry, item)), listButton('Markdown', async () => exportMarkdown(await loadConversation(entry.id)), 'Save as Markdown'),
    listButton('JSON', async () => exportJson(await loadConversation(entry.id)), 'Save as JSON'), listButton('Delete', () => askToDelete(entry, acts)));
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

/* onPick(id) opens a conversation, onPick(id, newTitle) reports that the open one was renamed; onNew(deleted) starts an empty one,
 * `deleted` if the open one was deleted. */
export function watchConversations(onPick, onNew) {
  picked = onPick;
  anew = onNew;
}
