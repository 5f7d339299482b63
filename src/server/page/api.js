// SPDX-License-Identifier: Apache-2.0
/* The part of the server's API that the page uses. Every failure is an ApiError; its kind says how the page reacts. */
import { eventData } from './sse.js';

/* kind: "gone" (no server), "key" (status 401), "cut" (the stream broke off), "file" (an image cannot be read), "size" (the images
 * are too large to send) or "refused" (any other error of the server; status and param are set). */
export class ApiError extends Error {
  constructor(kind, message, more = {}) {
    super(message);
    Object.assign(this, { kind, status: 0, param: '', retryAfter: 0 }, more);
  }
}

const KEY = 'eyelet-api-key';
let key = '';
try {
  key = sessionStorage.getItem(KEY) || '';
} catch { /* storage is disabled: the key is lost when the page is closed */ }

export function useKey(text) {
  key = text;
  try {
    sessionStorage.setItem(KEY, text);
  } catch { /* storage is disabled */ }
}

export const hasKey = () => key !== '';

/* The URL is relative to the page, so that it also works behind a reverse proxy that serves eyelet under a path. */
function request(path, options = {}) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = `Bearer ${key}`;
  return fetch(new URL(path, document.baseURI), { ...options, headers, credentials: 'omit', cache: 'no-store' });
}

async function refusal(response) {
  const text = await response.text().catch(() => '');
  let error = {};
  try {
    error = JSON.parse(text).error || {};
  } catch { /* not JSON: the error of a proxy, perhaps */ }
  const kind = response.status === 401 ? 'key' : 'refused';
  return new ApiError(kind, error.message || `${response.status} ${response.statusText}`.trim(), {
    status: response.status,
    param: error.param || '',
    retryAfter: Number(response.headers.get('Retry-After')) || 0,
  });
}

async function send(path, options) {
  let response;
  try {
    response = await request(path, options);
  } catch (error) {
    throw error.name === 'AbortError' ? error : new ApiError('gone', error.message);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

/* Returns the models, each once: /v1/models lists a model under each of its names. */
export async function getModels() {
  const { data } = await (await send('v1/models')).json();
  return data.filter((model, i) => data.findIndex((other) => other.root === model.root) === i);
}

export async function getPlan(model) {
  return (await send(`eyelet/plan?model=${encodeURIComponent(model)}`)).json();
}

/* Returns {ready, status, percent, message}. The server answers this without a key and while it loads the model. */
export async function getReadiness() {
  let response;
  try {
    response = await request('ready');
  } catch (error) {
    throw new ApiError('gone', error.message);
  }
  const said = await response.json().catch(() => ({}));
  return { ...said, ready: response.ok };
}

/* Lets the server convert an image, or one page of a document, to JPEG. `url` is a data: URL or one that the server may fetch.
 * Returns {blob, width, height, pages}: the size of the original in pixels, and the document's page count (0 for an image). */
export async function fetchPreview(url, page = 1) {
  const response = await send('eyelet/preview', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(page > 1 ? { url, page } : { url }),
  });
  const [width, height] = (response.headers.get('Image-Size') || '0x0').split('x').map(Number);
  return { blob: await response.blob(), width, height, pages: Number(response.headers.get('Document-Pages') || 0) };
}

/* Streams an answer: yields {text} and {thought} as they arrive, then {finish} and {usage, timings}. Throws an ApiError, or an
 * AbortError when `signal` aborts the request. */
export async function* ask(body, signal) {
  const response = await send('v1/chat/completions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  try {
    for await (const data of eventData(response.body)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError('refused', chunk.error.message, { status: Number(chunk.error.code) || 500 });
      if (chunk.usage) yield { usage: chunk.usage, timings: chunk.timings };
      for (const choice of chunk.choices || []) {
        if (choice.delta?.reasoning_content) yield { thought: choice.delta.reasoning_content };
        if (choice.delta?.content) yield { text: choice.delta.content };
        if (choice.finish_reason) yield { finish: choice.finish_reason };
      }
    }
  } catch (error) {
    if (error instanceof ApiError || error.name === 'AbortError') throw error;
    throw new ApiError('cut', error.message);
  }
  throw new ApiError('cut', 'the stream ended before the answer was complete');
}
