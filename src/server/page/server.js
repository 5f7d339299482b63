// SPDX-License-Identifier: Apache-2.0
/* The state of the server: whether it can be reached, load progress, models, memory plan, and the API key form. */
import { ApiError, getModels, getPlan, getReadiness, useKey } from './api.js';
import { showPlan } from './memory.js';
import { say } from './voice.js';

const $ = (id) => document.getElementById(id);
const LOADING_MS = 400;
const GONE_MS = 2000;
const STAGES = { loading: 'Loading the model', failed: 'The model could not be loaded', stopping: 'The server is stopping' };

let model = null;
let chosen = null; // the id that was chosen from the list of models
let ready = false;
let running = false;
let opened = () => {};

export const modelName = () => model?.id;
/* Whether the model is the demo model, a toy that knows only shapes and printed words. */
export const isToy = () => /(^|\/)demo\/?$/.test(model?.root || '');
/* Whether the model is loaded. */
export const isReady = () => ready && model?.resident;

function status(kind, text) {
  $('model').className = `model ${kind}`;
  if ($('model').textContent !== text) $('model').textContent = text;
}

function showLoading({ ready: done, status: stage, percent, message }) {
  const loading = !done && stage !== 'failed' && stage !== 'stopping';
  const text = STAGES[stage] || STAGES.loading;
  $('loading').hidden = !loading;
  if (loading) {
    if (percent >= 0) $('load-bar').value = percent;
    else $('load-bar').removeAttribute('value');
    $('load-text').textContent = percent >= 0 ? `${text}: ${percent} %` : text;
  }
  showProblem(done || loading ? '' : `${text}. ${message || ''}`.trim());
}

function showProblem(text) {
  if ($('gone').textContent !== text) $('gone').textContent = text;
  $('gone').hidden = !text;
}

function askForKey(wrong) {
  status('waiting', 'Needs a key');
  $('key-form').hidden = false;
  if (wrong) $('key-note').textContent = 'The server does not know this key. Check it for typos.';
  $('key').setAttribute('aria-invalid', String(wrong));
  $('key').focus();
}

/* With several models, a list to choose from replaces the model's name. */
function showChoice(models) {
  const select = $('models');
  const ids = models.map(({ id }) => id);
  select.hidden = ids.length < 2;
  if (ids.join('\n') !== [...select.options].map(({ value }) => value).join('\n')) select.replaceChildren(...ids.map((id) => new Option(id)));
  select.value = model.id;
}

async function look() {
  const readiness = await getReadiness();
  ready = readiness.ready;
  showLoading(readiness);
  const models = await getModels();
  model = models.find(({ id }) => id === chosen) || models[0];
  showChoice(models);
  status(ready ? 'ready' : 'waiting', ready && !model.resident ? `${model.id} sleeps; a question wakes it` : model.id);
  document.title = `eyelet · ${model.id}`;
  if (!ready) return false;
  const plan = await getPlan(model.id);
  document.body.classList.toggle('text-only', plan.max_pixels === 0); // the model takes no images
  $('toy').hidden = !isToy();
  showPlan(plan);
  return true;
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/* Polls until the server can be reached, accepts the key and has loaded the model. */
export async function connect() {
  if (running) return;
  running = true;
  const before = ready;
  for (;;) {
    try {
      if (await look()) break;
      await pause(LOADING_MS);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.kind === 'key') {
        running = false;
        askForKey(Boolean($('key').value));
        return;
      }
      ready = false;
      status('bad', model ? model.id : 'No server');
      showProblem(error.kind === 'gone' ? 'The server cannot be reached. Is eyelet still running? This page tries again every two seconds.' : error.message);
      await pause(GONE_MS);
    }
  }
  running = false;
  if (!before) say(`${model.id} is ready`);
  opened();
}

/* Updates the state after another model was chosen or an answer ended, since models may have been loaded or unloaded. Ignores API
 * errors: the next question reports them. */
export async function refreshServer() {
  if (running || !$('key-form').hidden) return;
  try {
    if (!(await look())) connect();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

/* Reacts to a failed question if the server is gone or its key has changed. */
export function lost(error) {
  if (error.kind === 'key') askForKey(Boolean($('key').value));
  else if (error.kind === 'gone' || error.kind === 'cut') {
    ready = false;
    connect();
  }
}

$('models').addEventListener('change', () => {
  chosen = $('models').value;
  refreshServer();
});

$('key-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  useKey($('key').value.trim());
  $('key-form').hidden = true;
  await connect();
});

/* Calls `onReady` each time the server has become ready. */
export function watchServer(onReady) {
  opened = onReady;
}
