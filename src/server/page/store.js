// SPDX-License-Identifier: Apache-2.0
/* Stores conversations and their images in IndexedDB, or in memory where the browser disables it (private windows). They leave
 * the browser only in questions to this server. */
const NAME = 'eyelet';
const VERSION = 1;

let opening;

function open() {
  opening ||= new Promise((resolve) => {
    let request;
    try {
      request = indexedDB.open(NAME, VERSION);
    } catch {
      return resolve(null);
    }
    request.onupgradeneeded = () => {
      request.result.createObjectStore('conversations', { keyPath: 'id' });
      request.result.createObjectStore('images', { keyPath: 'id' });
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = request.onblocked = () => resolve(null);
  });
  return opening;
}

/* Makes an id for a conversation or an image. Over plain HTTP, browsers have no randomUUID. */
export const newId = () => crypto.randomUUID?.() || `${Date.now()}-${Math.random()}`;

const memory = { conversations: new Map(), images: new Map() };

/* Runs work(store) in a transaction and resolves to the result of its request. Without IndexedDB, instead(map) does the work. */
async function within(name, mode, work, instead) {
  const db = await open();
  if (!db) return instead(memory[name]);
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(name, mode);
    const request = work(transaction.objectStore(name));
    transaction.oncomplete = () => resolve(request?.result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

const put = (name, value) =>
  within(name, 'readwrite', (store) => store.put(value), (map) => void map.set(value.id, structuredClone(value)));
const get = (name, id) => within(name, 'readonly', (store) => store.get(id), (map) => map.get(id));
const drop = (name, id) => within(name, 'readwrite', (store) => store.delete(id), (map) => void map.delete(id));

/* Resolves to {id, title, updated, n} of every conversation, the latest first; n is the number of turns. */
export async function listConversations() {
  const all = await within('conversations', 'readonly', (store) => store.getAll(), (map) => [...map.values()]);
  return all.map(({ id, title, updated, turns }) => ({ id, title, updated, n: turns.length })).sort((a, b) => b.updated - a.updated);
}

export const loadConversation = (id) => get('conversations', id);
export const saveConversation = (conversation) => put('conversations', conversation);

export const imagesOf = (conversation) => [...conversation.turns.flatMap((turn) => turn.images), ...conversation.draft.images];

export async function deleteConversation(id) {
  const conversation = await loadConversation(id);
  for (const image of conversation ? imagesOf(conversation) : []) await drop('images', image.id);
  await drop('conversations', id);
}

/* image: {id, file, preview}; the preview is null unless the browser cannot show the file. */
export const saveImage = (image) => put('images', image);
export const loadImage = (id) => get('images', id);
export const deleteImage = (id) => drop('images', id);
