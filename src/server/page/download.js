// SPDX-License-Identifier: Apache-2.0
/* Saves a conversation as a Markdown or JSON file. */
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const fileName = (title) => title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 60) || 'conversation';

export function asMarkdown(conversation) {
  const parts = [`# ${conversation.title}`, ''];
  for (const turn of conversation.turns) {
    for (const image of turn.images) parts.push(`![${image.name}](${encodeURI(image.name)})`, '');
    parts.push(...turn.shown.split('\n').map((line) => `> ${line}`), '', turn.answer || '_(no answer)_', '');
  }
  return parts.join('\n');
}

export function asJson(conversation) {
  const turns = conversation.turns.map(({ text, images, answer, thinking, reason, usage }) =>
    ({ question: text, images: images.map(({ name, width, height }) => ({ name, width, height })), thinking, answer, finish_reason: reason, usage }));
  const { title, created, updated, model } = conversation;
  return `${JSON.stringify({ title, model, created: new Date(created), updated: new Date(updated), turns }, null, 2)}\n`;
}

export const exportMarkdown = (conversation) => download(`${fileName(conversation.title)}.md`, 'text/markdown', asMarkdown(conversation));
export const exportJson = (conversation) => download(`${fileName(conversation.title)}.json`, 'application/json', asJson(conversation));
