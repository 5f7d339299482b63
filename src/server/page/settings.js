// SPDX-License-Identifier: Apache-2.0
/* Settings for answers: system prompt, sampling, length, image detail and format. They are stored in this browser. */
const $ = (id) => document.getElementById(id);
const dialog = $('settings');
const form = $('settings-form');
const STORE = 'eyelet-settings';
const FIELDS = ['system', 'temperature', 'longest', 'seed', 'detail', 'format', 'choices', 'schema'];

function readStored() {
  try {
    return JSON.parse(localStorage.getItem(STORE)) || {};
  } catch {
    return {};
  }
}

const choicesOf = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean);
const numberOf = (id) => ($(id).value.trim() === '' ? undefined : Number($(id).value));

/* Returns what is wrong with the answer format, or "". */
function formatProblem() {
  if ($('format').value === 'choices' && choicesOf($('choices').value).length < 2) return 'Enter at least two choices, one per line.';
  if ($('format').value !== 'schema') return '';
  try {
    const schema = JSON.parse($('schema').value);
    return schema && typeof schema === 'object' && !Array.isArray(schema) ? '' : 'A JSON schema must be an object: { … }.';
  } catch (error) {
    return `The schema is not valid JSON: ${error.message}`;
  }
}

function show() {
  for (const kind of ['choices', 'schema']) $(`${kind}-field`).hidden = $('format').value !== kind;
  const problem = formatProblem();
  $('format-wrong').textContent = problem;
  $('format-wrong').hidden = !problem;
  const changed = FIELDS.some((id) => $(id).value.trim() !== '' && $(id).value !== $(id).dataset.usual);
  $('open-settings').classList.toggle('changed', changed);
}

function keep() {
  show();
  try {
    localStorage.setItem(STORE, JSON.stringify(Object.fromEntries(FIELDS.map((id) => [id, $(id).value]))));
  } catch { /* storage is disabled: settings are lost when the page is closed */ }
}

export const detail = () => $('detail').value;
export const format = () => (formatProblem() ? 'text' : $('format').value);
export const systemMessages = () => ($('system').value.trim() ? [{ role: 'system', content: $('system').value.trim() }] : []);

/* Returns the settings as fields of a request. `exact` sets temperature 0; `free` ignores the answer format. */
export function requestFields({ exact, free }) {
  const fields = {};
  const temperature = exact ? 0 : numberOf('temperature');
  if (temperature !== undefined) fields.temperature = temperature;
  if (numberOf('longest') !== undefined) fields.max_tokens = numberOf('longest');
  if (numberOf('seed') !== undefined) fields.seed = numberOf('seed');
  if (free) return fields;
  if (format() === 'choices') fields.structured_outputs = { choice: choicesOf($('choices').value) };
  if (format() === 'schema')
    fields.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema: JSON.parse($('schema').value) } };
  return fields;
}

const stored = readStored();
for (const id of FIELDS) {
  $(id).dataset.usual = $(id).localName === 'select' ? $(id).options[0].value : '';
  if (typeof stored[id] === 'string') $(id).value = stored[id];
}
show();

form.addEventListener('input', keep);
$('open-settings').addEventListener('click', () => dialog.showModal());
$('settings-reset').addEventListener('click', () => {
  for (const id of FIELDS) $(id).value = $(id).dataset.usual;
  keep();
});
for (const id of ['settings', 'code'])
  $(id).addEventListener('click', (event) => event.target === $(id) && $(id).close()); // a click on the backdrop
for (const button of document.querySelectorAll('dialog .close')) button.addEventListener('click', () => button.closest('dialog').close());
