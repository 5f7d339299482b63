// SPDX-License-Identifier: Apache-2.0
/* Server-sent events: a response's body in, the data of one event after the other out. Lines end with LF or CRLF;
 * comments (the server's signs of life) and fields other than data are passed over. */
export async function* eventData(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const ended of lines) {
        const line = ended.endsWith('\r') ? ended.slice(0, -1) : ended;
        if (line.startsWith('data:')) {
          data.push(line.slice(line[5] === ' ' ? 6 : 5));
        } else if (line === '' && data.length) {
          yield data.join('\n');
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // whoever stops listening closes the connection, and the server stops its work
  }
}
