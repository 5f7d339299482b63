// SPDX-License-Identifier: Apache-2.0
/* Formats numbers and explains errors. */
const plain = new Intl.NumberFormat('en');

export const count = (n) => plain.format(n);

export function bytes(n) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) n /= 1024, unit++;
  return `${unit && n < 100 ? n.toFixed(1) : plain.format(Math.round(n))} ${units[unit]}`;
}

export function seconds(s) {
  return s < 1 ? `${s.toFixed(2)} s` : s < 100 ? `${s.toFixed(1)} s` : `${Math.round(s)} s`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/* Returns {what, todo, said}: what went wrong, what to do, and the server's message if it adds something. */
export function explain(error) {
  const said = error.message;
  if (error.kind === 'gone') return { what: 'The server cannot be reached.', todo: 'Check that eyelet is still running, then try again.' };
  if (error.kind === 'cut') return { what: 'The answer broke off: the connection to the server was lost.', todo: 'Try again.' };
  if (error.kind === 'key') return { what: 'This server requires an API key.', todo: 'Enter it at the top of the page.' };
  if (error.kind === 'file') return { what: said, todo: 'Choose the file again.' };
  if (error.kind === 'size') return { what: said, todo: 'Use smaller images, or start over with fewer.' };
  if (error.status === 413) return { what: 'The request is larger than the server accepts.', todo: 'Use smaller images, or start over with fewer.', said };
  if (error.status === 503)
    return {
      what: 'The server cannot answer now.',
      todo: error.retryAfter ? `Try again in ${plural(error.retryAfter, 'second')}.` : 'Try again later.',
      said,
    };
  if (error.status === 400 && /context length|maximum model length|context/i.test(said))
    return { what: 'The images and the conversation do not fit the model’s context.', todo: 'Start over, or choose a lower image detail in the settings.', said };
  if (error.status === 400 && (error.param.includes('image') || said.startsWith('Failed to load image')))
    return { what: 'The server cannot read this image.', todo: 'Choose another file: JPEG, PNG, WebP, GIF, HEIC, AVIF, TIFF or BMP.', said };
  if (error.kind === 'refused') return { what: 'The server refused the request:', todo: '', said };
  return { what: 'An error occurred in this page.', todo: 'Reload the page.', said };
}
