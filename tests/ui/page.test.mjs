// SPDX-License-Identifier: Apache-2.0
// The page in a real browser with a server of the demo model: a user asks, stops, finds and reads.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { SLOW, root, startServer, until } from '../node/server.mjs';

const examples = `${root}/examples`;
const expected = JSON.parse(readFileSync(`${examples}/expected.json`));
const shots = new URL('screenshots/', import.meta.url).pathname;
const axeSource = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const DESK = { viewport: { width: 1280, height: 860 } };
const PHONE = { viewport: { width: 320, height: 640 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
const WAIT_MS = 60000;

let server, slow, browser, phones, context, page;
let complaints = []; // the browser's: errors, refused resources, requests to other hosts

const launch = () => chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});

before(async () => {
  mkdirSync(shots, { recursive: true });
  server = await startServer('--served-model-name', 'demo');
  slow = await startServer('--served-model-name', 'demo', ...SLOW);
  [browser, phones] = [await launch(), await launch()];
});
after(async () => {
  await browser?.close();
  await phones?.close();
  await server?.stop();
  await slow?.stop();
});

/* A test in a new browser, which must log no complaint. */
function story(name, tell) {
  test(name, async (t) => {
    complaints = [];
    try {
      await tell(t);
      assert.deepEqual(complaints, []);
    } catch (error) {
      if (page && !page.isClosed()) await shoot(`failed-${name.replace(/\W+/g, '-').slice(0, 40)}`).catch(() => {});
      throw error;
    } finally {
      await context?.close();
      context = null;
    }
  });
}

/* Opens the page in a new browser and waits for the model. */
async function open(options = DESK, { url = server.url, ready = true } = {}) {
  context = await (options.isMobile ? phones : browser).newContext(options); // Chromium emulates touch only in a browser that never had a mouse
  page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on('pageerror', (error) => complaints.push(`${error}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/status of \d+|ERR_CONNECTION|ERR_SOCKET_NOT_CONNECTED|ERR_INCOMPLETE/.test(message.text())) complaints.push(message.text());
  });
  page.on('request', (request) => {
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(url)) complaints.push(`a request to ${request.url()}`);
  });
  await page.goto(url);
  if (ready) await page.locator('.model.ready').waitFor();
}

const shoot = (name) => settle().then(() => page.screenshot({ path: `${shots}${name}.png` }));
const choose = (name) => page.setInputFiles('#file', `${examples}/${name}`);
const lastTurn = () => page.locator('.turn').last();
const likeliest = () => page.evaluate(() => (document.getElementById('temperature').value = '0')); // greedy, for a known answer

/* Waits for the end of the last answer and returns its text. */
async function answer() {
  await page.locator('.turn').last().locator('.took').waitFor();
  return (await lastTurn().locator('.answer').innerText()).trim();
}

async function ask(text) {
  await page.fill('#question', text);
  await page.press('#question', 'Enter');
}

/* Until usual(), adds `more` to the page's requests, or makes `reply` the answer. It replaces fetch
 * in the page, because after page.route() the browser lets requests through for a moment. */
const onTheWay = ({ more, reply }) => page.evaluate(({ more, reply }) => {
  const usual = (window.usualFetch ||= window.fetch);
  window.fetch = async (url, options) => {
    if (!/chat\/completions$/.test(url)) return usual(url, options);
    if (reply) return new Response(reply.body, reply);
    return usual(url, { ...options, body: JSON.stringify({ ...JSON.parse(options.body), ...more }) });
  };
}, { more, reply });
const usual = () => page.evaluate(() => (window.fetch = window.usualFetch, undefined));

/* Makes answers endless, for a slow server. */
const endless = () => onTheWay({ more: { ignore_eos: true, max_tokens: 3000, temperature: 0 } });

/* Waits for the end of all animations that end. */
const settle = () => page.evaluate(() => Promise.allSettled(document.getAnimations().filter((a) => a.effect.getTiming().iterations === 1).map((a) => a.finished)));

async function checkAccess(where) {
  await settle();
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target + ' ' + n.failureSummary).join(' | ')}`), [], where);
}

async function checkWidth(where) {
  const { scroll, width } = await page.evaluate(() => ({ scroll: document.documentElement.scrollWidth, width: innerWidth }));
  assert.ok(scroll <= width, `${where}: ${scroll} px wide in a window of ${width}`);
}

/* Drops a new file on the page or pastes it. */
async function bring(event, files) {
  await page.evaluate(({ event, files }) => {
    const transfer = new DataTransfer();
    for (const { name, type, base64 } of files)
      transfer.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name, { type }));
    const made = event === 'paste'
      ? new ClipboardEvent('paste', { clipboardData: transfer, bubbles: true, cancelable: true })
      : new DragEvent(event, { dataTransfer: transfer, bubbles: true, cancelable: true });
    document.body.dispatchEvent(made);
  }, { event, files });
}
const fileOf = (name, type) => ({ name, type, base64: readFileSync(`${examples}/${name}`).toString('base64') });

// ---- a first visit ----

story('one of several models can be chosen', async () => {
  const folder = mkdtempSync(`${tmpdir()}/eyelet-`);
  symlinkSync(`${root}/models/demo`, `${folder}/other`);
  const both = await startServer('models/demo', `${folder}/other`, '--served-model-name', 'demo', 'other', '--max-loaded-models', '1');
  try {
    await open(DESK, { url: both.url });
    assert.deepEqual(await page.locator('#models option').allInnerTexts(), ['demo', 'other']);
    await likeliest();
    await choose('shapes-4.png');
    for (const name of ['other', 'demo']) {
      await page.selectOption('#models', name);
      await page.getByText(`${name} sleeps; a question wakes it`).waitFor();
      if (name === 'other') await shoot('several-models'), await checkAccess('several models');
      await page.click('#describe');
      assert.equal(await answer(), expected['shapes-4.png']);
      await page.locator('.model.ready', { hasText: new RegExp(`^${name}$`) }).waitFor();
    }
    await checkWidth('several models');
  } finally {
    await both.stop();
    rmSync(folder, { recursive: true });
  }
});

story('a model that sleeps is awake after an answer', async () => {
  const sleeper = await startServer('--served-model-name', 'demo', '--idle-unload', '3');
  try {
    await until(async () => (await (await fetch(`${sleeper.url}/ready`)).json()).status === 'unloaded', 'the model is unloaded');
    await open(DESK, { url: sleeper.url, ready: false });
    await page.getByText('demo sleeps; a question wakes it').waitFor();
    await choose('shapes-4.png');
    await page.click('#describe');
    await answer();
    await page.locator('.model.ready', { hasText: /^demo$/ }).waitFor();
  } finally {
    await sleeper.stop();
  }
});

story('describe, ask again from the cache, find, read: desktop, light', async () => {
  await open({ ...DESK, colorScheme: 'light' });
  await shoot('desktop-light-empty');
  await choose('shapes-4.png');
  await page.locator('#preview').waitFor();
  assert.match(await page.innerText('#facts'), /shapes-4\.png · \d+ × \d+ pixels · [\d.]+ KiB/);
  await likeliest();

  await page.click('#describe');
  assert.equal(await answer(), expected['shapes-4.png']);
  assert.match(await lastTurn().locator('.took').innerText(), /^first word after \d+\.\d+ s · \d+ tokens(, [\d.,]+ a second)?$/);
  assert.equal(await lastTurn().locator('.cache').count(), 0);
  assert.match(await page.innerText('#facts'), /model saw|seen at full size/);

  const runs = await server.metric('eyelet_vision_encoder_runs_total');
  await ask('How many shapes are there?');
  assert.match(await answer(), /3|three/i);
  assert.match(await lastTurn().locator('.cache').innerText(), /^Image from the cache: \d+ of \d+ tokens reused$/);
  assert.equal(await server.metric('eyelet_vision_encoder_runs_total'), runs);
  await shoot('desktop-light-answered');

  await page.click('#find');
  await page.fill('#question', 'square');
  await page.click('#send');
  await lastTurn().locator('.took').waitFor();
  const found = await lastTurn().locator('.found-one .label').allInnerTexts();
  assert.ok(found.length >= 1 && found.every((label) => /square/.test(label)), String(found));
  assert.equal(await page.locator('.box').count(), found.length);
  const inside = await page.evaluate(() => {
    const frame = document.getElementById('frame').getBoundingClientRect();
    return [...document.querySelectorAll('.box')].every((box) => {
      const at = box.getBoundingClientRect();
      return at.width > 5 && at.height > 5 && at.left >= frame.left - 1 && at.right <= frame.right + 1 && at.top >= frame.top - 1 && at.bottom <= frame.bottom + 1;
    });
  });
  assert.ok(inside, 'boxes lie in the image');
  await lastTurn().locator('.found-one').first().hover();
  assert.equal(await page.locator('.box.marked').count(), 1);
  await lastTurn().locator('.spelling summary').click();
  assert.match(await lastTurn().locator('.spelling pre').innerText(), /bbox_2d/);
  await shoot('desktop-light-found');
  await checkAccess('after the first visit');

  await choose('word-2.jpg');
  assert.equal(await page.locator('.turn').count(), 3, 'another image goes into the same conversation');
  assert.equal(await page.locator('.box').count(), 0, 'the boxes are those of the other image');
  assert.equal(await page.locator('#tray .thumb').count(), 2);
  await lastTurn().locator('.found-one').first().click();
  assert.match(await page.innerText('#facts'), /shapes-4\.png/, 'what was found is shown where it was found');
  assert.equal(await page.locator('.box.marked').count(), 1);

  await page.click('#list-toggle');
  await page.click('#new');
  assert.equal(await page.locator('.turn').count(), 0);
  await choose('word-2.jpg');
  await page.click('#read');
  assert.match(await answer(), /FRAGILE/);
  assert.match(await page.textContent('#memory-total'), /planned/);
});

story('the same on a phone, 320 px wide, dark', async () => {
  await open({ ...PHONE, colorScheme: 'dark' });
  await checkWidth('empty');
  await shoot('phone-dark-empty');
  await choose('shapes-3.png');
  await page.tap('#describe');
  await answer();
  await checkWidth('described');
  await page.tap('#find');
  await page.fill('#question', 'heart');
  await page.tap('#send');
  await lastTurn().locator('.took').waitFor();
  await checkWidth('found');
  await shoot('phone-dark-found');
  await lastTurn().locator('.found-one').first().tap();
  assert.ok(await page.evaluate(() => document.getElementById('frame').getBoundingClientRect().bottom > 0), 'the image comes into sight');
  await shoot('phone-dark-boxes');
  await ask('a'.repeat(300));
  await answer();
  await page.click('#open-settings');
  await checkWidth('long words, settings open');
  await shoot('phone-dark-settings');
  await checkAccess('settings on a phone');
  await page.click('#settings .close');
  assert.equal(await page.getAttribute('#photo', 'capture'), 'environment');
  assert.ok(await page.isVisible('label[for=photo]'));
  await checkAccess('phone');
});

story('stop in the middle of an answer, and go on after it', async () => {
  await open(DESK, { url: slow.url });
  await endless();
  const aborted = await slow.metric('vllm:request_success_total', 'finished_reason="abort"');
  await choose('word-1.png');
  await page.click('#describe');
  await page.waitForFunction(() => document.querySelector('.answer')?.innerText.length > 30);
  await shoot('desktop-growing');
  await page.click('#stop');
  await lastTurn().locator('.why').waitFor();
  assert.equal(await lastTurn().locator('.why').innerText(), 'Stopped.');
  await until(async () => (await slow.metric('vllm:num_requests_running')) === 0, 'the server stopped too');
  assert.equal(await slow.metric('vllm:request_success_total', 'finished_reason="abort"'), aborted + 1);

  await usual();
  await ask('What is this?');
  await answer();
  assert.match(await lastTurn().locator('.cache').innerText(), /Image from the cache/);
  assert.equal(await page.locator('.turn').count(), 2);
  await page.click('#anew');
  assert.equal(await page.locator('.turn').count(), 0);
  assert.ok(await page.isVisible('#preview'), 'the image stays');

  await endless();
  await page.click('#describe');
  await page.locator('.growing').waitFor();
  await page.click('#anew'); // during the answer
  await until(async () => (await slow.metric('vllm:num_requests_running')) === 0, 'the server stopped too');
  await usual();
  const request = page.waitForRequest('**/v1/chat/completions');
  await page.click('#describe');
  assert.equal((await request).postDataJSON().messages.length, 1, 'nothing is left of the conversation before');
  await answer();
});

story('a question without an image', async () => {
  await open();
  await ask('Hello');
  assert.ok((await answer()).length > 0);
  assert.ok(await page.isDisabled('#describe'));
});

// ---- adding images ----

story('dropped', async () => {
  await open();
  await bring('dragenter', []);
  assert.equal(await page.locator('.stage.over').count(), 1);
  await bring('drop', [fileOf('shapes-1.png', 'image/png')]);
  assert.match(await page.innerText('#facts'), /shapes-1\.png/);
  assert.equal(await page.locator('.stage.over').count(), 0);
});

story('pasted', async () => {
  await open();
  await bring('paste', [fileOf('shapes-2.jpg', 'image/jpeg')]);
  assert.match(await page.innerText('#facts'), /shapes-2\.jpg/);
});

story('drawn here as an example, and removed', async () => {
  await open();
  await page.click('#example');
  await page.locator('#preview').waitFor();
  await page.click('#remove');
  assert.ok(await page.isVisible('#empty'));
  assert.ok(await page.isDisabled('#describe'));
  await page.click('#example');
  await page.click('#describe');
  assert.match(await answer(), /background/);
  assert.ok(await page.isHidden('#remove'), 'it belongs to the conversation now');
});

story('rotated by EXIF: shown upright, with boxes in the right places', async () => {
  await open();
  await choose('turned.jpg');
  await likeliest();
  await page.click('#describe');
  assert.equal(await answer(), expected['turned.jpg']);
  const [, width, height] = /(\d+) × (\d+) pixels/.exec(await page.innerText('#facts'));
  const shown = await page.evaluate(() => ({ width: preview.naturalWidth, height: preview.naturalHeight }));
  assert.deepEqual(shown, { width: Number(width), height: Number(height) });
});

story('HEIC, which the browser cannot show: the server makes a preview', async () => {
  await open();
  await page.setInputFiles('#file', `${root}/tests/image/data/plain.heic`);
  await page.waitForFunction(() => document.getElementById('preview').naturalWidth === 48);
  assert.ok(await page.isHidden('#no-preview'));
  await page.click('#find');
  await ask('circle');
  await answer();
  assert.match(await page.innerText('#facts'), /plain\.heic · \d+ × \d+ pixels · /);
});

story('a PDF, whose pages become images', async () => {
  await open();
  await page.setInputFiles('#file', `${root}/tests/document/data/two.pdf`);
  await page.locator('.thumb.pending').nth(1).waitFor();
  await page.waitForFunction(() => !document.getElementById('image-wrong').textContent);
  assert.match(await page.innerText('#facts'), /two\.pdf, page 2\.jpg · /);
  await page.locator('#tray .thumb').nth(1).click();
  const asked = page.waitForRequest('**/v1/chat/completions');
  await page.click('#describe');
  assert.deepEqual((await asked).postDataJSON().messages[0].content.map((part) => part.type), ['image_url', 'image_url', 'text']);
  await answer();
  await bring('drop', [{ name: 'broken.pdf', type: 'application/pdf', base64: btoa('%PDF-1.4 nothing') }]);
  await page.waitForFunction(() => /broken\.pdf was not added: .*damaged/.test(document.getElementById('image-wrong').textContent));
  const two = { name: 'two.pdf', type: 'application/pdf', base64: readFileSync(`${root}/tests/document/data/two.pdf`).toString('base64') };
  await bring('drop', Array(8).fill(two)); // after 16 images the eighth has no room
  await page.waitForFunction(() => /at most 16 images: two\.pdf was not added/.test(document.getElementById('image-wrong').textContent));
  assert.equal(await page.locator('#tray .thumb').count(), 16);
  complaints = complaints.filter((text) => !/400/.test(text)); // Chromium logs refused requests
});

story('a TIFF, of which each page becomes an image', async () => {
  await open();
  await page.setInputFiles('#file', `${root}/tests/document/data/two.tif`);
  await page.locator('.thumb.pending').nth(1).waitFor();
  await page.waitForFunction(() => !document.getElementById('image-wrong').textContent);
  assert.match(await page.innerText('#facts'), /two\.tif, page 2\.jpg · /);
  await page.setInputFiles('#file', `${root}/tests/image/data/deflate.tif`);
  await page.locator('.thumb.pending').nth(2).waitFor();
  assert.match(await page.innerText('#facts'), /deflate\.tif · /);
  assert.equal(await page.locator('#tray .thumb').count(), 3);
});

story('a file that is no image, by its name', async () => {
  await open();
  await bring('drop', [{ name: 'notes.txt', type: 'text/plain', base64: btoa('hello') }]);
  assert.match(await page.innerText('#image-wrong'), /notes\.txt is not an image/);
  assert.ok(await page.isVisible('#empty'));
});

story('a file with an image name and other contents: the error of the server', async () => {
  await open();
  await bring('drop', [{ name: 'broken.png', type: 'image/png', base64: btoa('this is not an image') }]);
  await page.locator('#no-preview').waitFor();
  await page.click('#describe');
  await lastTurn().locator('[role=alert]').waitFor();
  assert.match(await lastTurn().locator('[role=alert]').innerText(), /cannot read this image\. Choose another file/);
  await shoot('desktop-not-a-image');
  await checkAccess('an error');
  await choose('shapes-4.png');
  await page.click('#describe');
  await answer();
});

// ---- states of the server ----

story('is loading: a bar, then ready', async () => {
  context = await browser.newContext(DESK);
  page = await context.newPage();
  let loaded = false; // until the page has shown it
  await page.route('**/ready', (route) => (loaded ? route.continue() : route.fulfill({
    status: 503, contentType: 'application/json', body: JSON.stringify({ status: 'loading', stage: 'loading', percent: 60 }),
  })));
  await page.goto(server.url);
  await page.getByText('Loading the model: 60 %').waitFor();
  await shoot('desktop-loading');
  loaded = true;
  await page.locator('.model.ready').waitFor();
  assert.ok(await page.isHidden('#loading'));
});

story('goes away in the middle of an answer, and comes back', async (t) => {
  const first = await startServer(...SLOW);
  t.after(() => first.kill());
  await open(DESK, { url: first.url });
  await endless();
  await choose('shapes-4.png');
  await page.click('#describe');
  await page.waitForFunction(() => document.querySelector('.answer')?.innerText.length > 10);
  await first.kill();
  await lastTurn().locator('[role=alert]').waitFor();
  assert.match(await lastTurn().locator('[role=alert]').innerText(), /connection to the server was lost/);
  await page.locator('#gone:not([hidden])').waitFor();
  assert.match(await page.innerText('#gone'), /Is eyelet still running\?/);
  await shoot('desktop-server-gone');
  await checkAccess('server gone');
  await usual();
  const second = await startServer('--port', String(first.port));
  t.after(() => second.stop());
  await page.locator('.model.ready').waitFor();
  await page.getByRole('button', { name: 'Try again' }).click();
  await answer();
  assert.equal(await page.locator('.turn').count(), 1);
});

story('wants a key: requested, checked, kept for the tab', async (t) => {
  const locked = await startServer('--api-key', 'sesame');
  t.after(() => locked.stop());
  await open(DESK, { url: locked.url, ready: false });
  await page.locator('#key-form:not([hidden])').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'key');
  await page.keyboard.type('open');
  await page.keyboard.press('Enter');
  await page.getByText('does not know this key').waitFor();
  await shoot('desktop-key');
  await checkAccess('key');
  await page.fill('#key', 'sesame');
  await page.click('text=Use this key');
  await page.locator('.model.ready').waitFor();
  assert.ok(await page.isHidden('#key-form'));
  await page.reload();
  await page.locator('.model.ready').waitFor();
  await page.click('#example');
  await page.click('#describe');
  await answer();
  await lastTurn().getByRole('button', { name: 'Code' }).click();
  const samples = await page.locator('#code-list pre').allInnerTexts();
  for (const sample of samples) assert.match(sample, /EYELET_API_KEY/);
  assert.doesNotMatch(samples.join(''), /sesame/);
  const code = samples[2].replace(/await image\([^)]*\)/, '""').replace(/response\.json\(\)\)\.choices.*/, 'response.json()).error?.code ?? 0);');
  const out = execFileSync('node', ['--input-type=module', '-e', code], { env: { ...process.env, EYELET_API_KEY: 'sesame' }, encoding: 'utf8' });
  assert.notEqual(out.trim(), '401');
});

story('is busy: the page says when to try again', async () => {
  await open();
  const body = JSON.stringify({ error: { message: '64 requests wait already', type: 'x', param: null, code: 503 } });
  await onTheWay({ reply: { status: 503, headers: { 'Retry-After': '3' }, body } });
  await ask('Hello');
  await lastTurn().locator('[role=alert]').waitFor();
  assert.match(await lastTurn().locator('[role=alert]').innerText(), /cannot answer now\. Try again in 3 seconds\.\s+64 requests wait already/);
  await usual();
  await page.getByRole('button', { name: 'Try again' }).click();
  await answer();
});

story('a conversation that is longer than the context', async () => {
  await open();
  await ask('a circle '.repeat(20000));
  await lastTurn().locator('[role=alert]').waitFor();
  assert.match(await lastTurn().locator('[role=alert]').innerText(), /do not fit the model’s context\. Start over/);
});

// ---- accessibility ----

story('keyboard only', async () => {
  await open(DESK, { url: slow.url });
  const focused = () => page.evaluate(() => {
    const node = document.activeElement;
    const shown = node.matches('.hidden-input') ? node.nextElementSibling : node;
    return { id: node.id || node.tagName, outline: getComputedStyle(shown).outlineStyle };
  });
  const order = [];
  for (const key of ['list-toggle', 'open-settings', 'theme', 'file', 'example']) {
    await page.keyboard.press('Tab');
    const { id, outline } = await focused();
    order.push(id);
    assert.equal(outline, 'solid', `the focus on ${key} can be seen`);
  }
  assert.deepEqual(order, ['list-toggle', 'open-settings', 'theme', 'file', 'example']);
  await page.keyboard.press('Enter');
  await page.locator('#preview').waitFor();
  for (const id of ['address-open', 'remove', 'zoom-in', 'describe', 'read', 'find']) {
    await page.keyboard.press('Tab');
    assert.equal((await focused()).id, id);
  }
  await page.keyboard.press('Enter');
  assert.equal((await focused()).id, 'question');
  await page.keyboard.type('circle');
  await page.keyboard.press('Escape'); // back to asking
  assert.equal(await page.innerText('#send'), 'Ask');
  await endless();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.answer')?.innerText.length > 5);
  await page.keyboard.press('Escape');
  await lastTurn().locator('.why').waitFor();
  assert.equal((await focused()).id, 'question');
  await page.keyboard.type('one');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('two');
  assert.equal(await page.inputValue('#question'), 'one\ntwo');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter'); // the Ask button: Stop replaces it and gets the focus
  assert.equal((await focused()).id, 'stop');
  await page.keyboard.press('Enter');
  await lastTurn().locator('.why').waitFor();
  assert.equal((await focused()).id, 'send');
});

story('events are announced to screen readers, the answer in whole sentences', async () => {
  await open();
  await page.getByRole('log', { name: 'Status messages' }).getByText('demo is ready').waitFor();
  await choose('shapes-4.png');
  await likeliest();
  await page.click('#describe');
  await answer();
  const said = await page.locator('#voice p').allInnerTexts();
  assert.deepEqual(said, ['demo is ready', 'Image shapes-4.png chosen', expected['shapes-4.png'], 'End of the answer']);
});

story('light and dark: the system decides until the button does, and that is kept', async () => {
  await open({ ...DESK, colorScheme: 'dark' });
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await back();
  await checkAccess('dark, empty');
  await shoot('desktop-dark-empty');
  await page.getByRole('button', { name: 'Light colors' }).click();
  const light = await back();
  assert.notEqual(light, dark);
  await page.reload();
  await page.locator('.model.ready').waitFor();
  assert.equal(await back(), light);
  await checkAccess('light, empty');
  await page.getByRole('button', { name: 'Dark colors' }).click();
  assert.equal(await back(), dark);
  await choose('shapes-5.png');
  await page.click('#find');
  await ask('ring');
  await lastTurn().locator('.took').waitFor();
  await checkAccess('dark, found');
  await shoot('desktop-dark-found');
});

story('reduced motion', async () => {
  await open({ ...DESK, reducedMotion: 'reduce' }, { url: slow.url });
  await endless();
  await ask('Hello');
  await page.locator('.growing').waitFor();
  const running = await page.evaluate(() => document.getAnimations().length);
  assert.equal(running, 0);
  await page.click('#stop');
});

story('the memory plan adds up', async () => {
  await open();
  await page.click('#memory-line');
  const plan = await (await fetch(`${server.url}/eyelet/plan`)).json();
  const items = plan.items.filter((item) => item.bytes > 0);
  assert.deepEqual(await page.locator('.legend .name').allInnerTexts(), items.map((item) => item.name));
  assert.equal(await page.locator('.part').count(), items.length);
  assert.match(await page.getAttribute('#bar', 'aria-label'), new RegExp(items[0].name));
  const widths = await page.locator('.part').evaluateAll((parts) => parts.map((part) => part.getBoundingClientRect().width));
  const largest = items.findIndex((item) => item.bytes === Math.max(...items.map((other) => other.bytes)));
  assert.equal(widths.indexOf(Math.max(...widths)), largest);
});

story('an answer brings no markup with it', async () => {
  await open();
  const words = 'See <img src=x onerror=alert(1)> **bold** `code` [link](javascript:alert(1)) ![x](http://example.com/x.png)\n\n- one\n- two\n\n1. three\n\n```\n<b>\n```\n# end';
  const chunk = (delta, finish) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
  const body = `: a comment\r\n\r\n${chunk({ content: words.slice(0, 30) }, null)}${chunk({ content: words.slice(30) }, null)}${chunk({}, 'stop')}data: [DONE]\n\n`;
  await onTheWay({ reply: { body } });
  await ask('Hello');
  await answer();
  const html = await lastTurn().locator('.answer').innerHTML();
  assert.equal(html, '<p>See &lt;img src=x onerror=alert(1)&gt; <strong>bold</strong> <code>code</code> [link](javascript:alert(1)) ![x](http://example.com/x.png)</p>'
    + '<ul><li>one</li><li>two</li></ul><ol><li>three</li></ol>' + '<div class="code"><div class="bar-of-code"><span></span><button type="button" class="quiet small">Copy code</button></div>'
    + '<pre tabindex="0"><code>&lt;b&gt;</code></pre></div><h3>end</h3>');
});

const HTML = { Accept: 'text/html' }; // as a browser sends; others get a line that the server is running

story('the policy: nothing inline, nothing from elsewhere, small', async () => {
  const response = await fetch(server.url, { headers: HTML });
  const policy = response.headers.get('content-security-policy');
  for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' blob: data:", "connect-src 'self'"])
    assert.ok(policy.includes(rule), `${rule} in ${policy}`);
  const etag = response.headers.get('etag');
  assert.equal((await fetch(server.url, { headers: { ...HTML, 'If-None-Match': etag } })).status, 304);
  let bytes = 0;
  await open();
  const fetched = await page.evaluate(() => performance.getEntriesByType('resource').map((entry) => new URL(entry.name).pathname.slice(1)));
  for (const path of new Set(['', ...fetched]))
    if (/^$|\.(js|css|svg)$/.test(path)) bytes += (await (await fetch(`${server.url}/${path}`, { headers: HTML })).arrayBuffer()).byteLength;
  assert.ok(bytes > 30000 && bytes < 192 * 1024, `${bytes} bytes`);
  assert.ok(!fetched.includes('vendor/temml.js'), 'formulas cost nothing where there are none');
});

// ---- stored data ----

const reopen = async () => {
  await page.reload();
  await page.locator('.model.ready').waitFor();
};

story('a reload loses nothing; conversations are renamed, saved as files and deleted', async () => {
  await open({ ...DESK, acceptDownloads: true });
  await choose('shapes-4.png');
  await likeliest();
  await page.click('#describe');
  const said = await answer();
  await choose('word-2.jpg');
  await page.fill('#question', 'half a ques');
  await page.waitForTimeout(1500); // the page saves once a second
  await reopen();
  assert.equal((await lastTurn().locator('.answer').innerText()).trim(), said);
  assert.equal(await page.inputValue('#question'), 'half a ques');
  assert.equal(await page.locator('#tray .thumb').count(), 2);
  assert.equal(await page.locator('#tray .thumb.pending').count(), 1);
  await page.fill('#question', '');
  await page.click('#tray .thumb.pending');
  await page.click('#remove');
  await likeliest();
  await ask('How many shapes are there?');
  assert.match(await answer(), /3|three/i);

  await page.click('#list-toggle');
  await shoot('desktop-conversations');
  await checkAccess('conversations');
  const more = () => page.locator('#conversations summary').first().click();
  await more();
  const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as Markdown' }).click()]);
  const text = readFileSync(await saved.path(), 'utf8');
  assert.match(text, /^# Describe this image\n[^]*!\[shapes-4\.png\][^]*> How many shapes are there\?/);
  const [json] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as JSON' }).click()]);
  assert.deepEqual(JSON.parse(readFileSync(await json.path())).turns.map((turn) => turn.answer)[0], said);
  await page.getByRole('button', { name: 'Rename' }).click();
  await page.keyboard.type('Three shapes');
  await page.keyboard.press('Enter');
  await page.locator('#conversations .title', { hasText: 'Three shapes' }).waitFor();
  await more();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.locator('#no-conversations').waitFor();
  assert.equal(await page.locator('.turn').count(), 0);
  await reopen();
  assert.equal(await page.locator('.turn').count(), 0);
});

story('an image that starts over with a new conversation survives a reload', async () => {
  await open();
  await choose('shapes-4.png');
  await page.click('#describe');
  await answer();
  await page.click('#anew');
  await page.click('#describe');
  await answer();
  await reopen();
  await page.locator('#preview').waitFor();
  assert.ok(await page.isHidden('#no-preview'));
  await likeliest();
  await lastTurn().getByRole('button', { name: 'Answer again' }).click();
  assert.equal(await answer(), expected['shapes-4.png']);
});

story('the example is refused after 16 images', async () => {
  await open();
  await page.setInputFiles('#file', Array(16).fill(`${examples}/shapes-1.png`));
  await page.locator('#tray .thumb').nth(15).waitFor();
  await page.click('#example');
  await page.waitForFunction(() => /at most 16 images/.test(document.getElementById('image-wrong').textContent));
  assert.equal(await page.locator('#tray .thumb').count(), 16);
});

story('two conversations keep their own state', async () => {
  await open();
  await choose('shapes-4.png');
  await page.click('#describe');
  await answer();
  await page.click('#list-toggle');
  await page.click('#new');
  assert.ok(await page.isVisible('#empty'));
  await ask('Hello');
  await answer();
  await page.click('#list-toggle');
  assert.equal(await page.locator('#conversations .title').count(), 2);
  await page.locator('#conversations .title', { hasText: 'Describe' }).click();
  await page.locator('.asked', { hasText: 'Describe this image' }).waitFor();
  assert.match(await page.innerText('#facts'), /shapes-4\.png/);
  await page.fill('#question', 'an unsaved draft'); // and on to the other conversation before the page saves it
  await page.click('#list-toggle');
  await page.locator('#conversations .title', { hasText: 'Hello' }).click();
  await page.locator('.asked', { hasText: 'Hello' }).waitFor();
  assert.equal(await page.inputValue('#question'), '');
  await page.click('#list-toggle');
  await page.locator('#conversations .title', { hasText: 'Describe' }).click();
  await page.locator('.asked', { hasText: 'Describe this image' }).waitFor();
  assert.equal(await page.inputValue('#question'), 'an unsaved draft');
});

story('several images in a question, and in a later one', async () => {
  await open();
  await page.setInputFiles('#file', [`${examples}/shapes-4.png`, `${examples}/word-2.jpg`]);
  assert.equal(await page.locator('.thumb.pending').count(), 2);
  const first = page.waitForRequest('**/v1/chat/completions');
  await page.click('#describe');
  assert.deepEqual((await first).postDataJSON().messages[0].content.map((part) => part.type), ['image_url', 'image_url', 'text']);
  await answer();
  await choose('shapes-3.png');
  const second = page.waitForRequest('**/v1/chat/completions');
  await ask('And this?');
  const { messages } = (await second).postDataJSON();
  assert.deepEqual(messages.map(({ role, content }) => [role, Array.isArray(content) ? content.length : 0]), [['user', 3], ['assistant', 0], ['user', 2]]);
  await answer();
  await page.locator('#tray .thumb').first().click();
  const third = page.waitForRequest('**/v1/chat/completions');
  await page.click('#find');
  await ask('square');
  assert.equal((await third).postDataJSON().messages.length, 1, 'of several, the shown image is searched alone');
  await answer();
  assert.ok((await page.locator('.box').count()) > 0);
  await shoot('desktop-several-images');
  await checkAccess('several images');
});

story('answer again, edit a question, go on after a cut', async () => {
  await open();
  await choose('shapes-4.png');
  await likeliest();
  await page.click('#describe');
  const said = await answer();
  await ask('How many shapes are there?');
  await answer();
  await lastTurn().getByRole('button', { name: 'Answer again' }).click();
  await answer();
  assert.equal(await page.locator('.turn').count(), 2);
  await page.locator('.turn').first().getByRole('button', { name: 'Edit' }).click();
  assert.equal(await page.inputValue('#question'), 'Describe this image.');
  await page.evaluate(() => (document.getElementById('longest').value = '4'));
  await page.press('#question', 'Enter');
  await answer();
  assert.equal(await page.locator('.turn').count(), 1, 'what came after the edited question is gone');
  assert.equal(await page.locator('.thumb.pending').count(), 0, 'its image went along');
  const cut = (await lastTurn().locator('.answer').innerText()).trim();
  assert.ok(said.startsWith(cut), cut);
  await page.evaluate(() => (document.getElementById('longest').value = ''));
  await lastTurn().getByRole('button', { name: 'Continue' }).click();
  const whole = await answer();
  assert.ok(whole.startsWith(cut) && whole.length > cut.length, whole);
});

story('settings: instructions, choices, a schema and its table; kept', async () => {
  await open();
  await page.click('#open-settings');
  await page.fill('#system', 'Be short.');
  await page.fill('#temperature', '0');
  await page.selectOption('#format', 'choices');
  assert.match(await page.innerText('#format-wrong'), /at least two choices/);
  await page.fill('#choices', 'apple\nbanana');
  await shoot('desktop-settings');
  await checkAccess('settings');
  await page.click('#settings .close');
  const request = page.waitForRequest('**/v1/chat/completions');
  await ask('What is this?');
  assert.equal((await request).postDataJSON().messages[0].role, 'system');
  assert.match(await answer(), /^(apple|banana)$/);
  await reopen();
  await page.click('#open-settings');
  assert.equal(await page.inputValue('#choices'), 'apple\nbanana');
  await page.selectOption('#format', 'schema');
  await page.fill('#schema', JSON.stringify({ type: 'object', properties: { kind: { enum: ['x'] }, list: { type: 'array', minItems: 2, maxItems: 2, items: { type: 'object', properties: { n: { enum: [7] } }, required: ['n'], additionalProperties: false } } }, required: ['kind', 'list'], additionalProperties: false }));
  await page.click('#settings .close');
  await ask('Fill it in');
  await answer();
  assert.deepEqual(await lastTurn().locator('.result dt').allInnerTexts(), ['kind', 'list']);
  assert.deepEqual(await lastTurn().locator('.result td').allInnerTexts(), ['7', '7']);
  await shoot('desktop-result');
  await page.click('#open-settings');
  await page.click('#settings-reset');
  assert.equal(await page.inputValue('#system'), '');
});

const shownAnswer = async (text, thought) => {
  const chunk = (delta, finish = null) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
  await onTheWay({ reply: { body: `${thought ? chunk({ reasoning_content: thought }) : ''}${chunk({ content: text })}${chunk({}, 'stop')}data: [DONE]\n\n` } });
  await ask('Hello');
  await answer();
};

story('tables, links, quotes, nested lists, code and formulas', async () => {
  await open();
  await shownAnswer('| a | b |\n|---|--:|\n| x, y | 2 |\n\n> quoted\n\n- one\n  - two\n\n[a link](https://example.com/)\n\nIt costs $5 and $6. But $x^2$ and\n\n$$\\frac{a}{b}$$\n\n```python\nprint(1)\n```', 'First I **look**.');
  const shown = lastTurn().locator('.answer');
  assert.equal(await shown.locator('table td').first().innerText(), 'x, y');
  assert.equal(await shown.locator('li li').innerText(), 'two');
  assert.equal(await shown.locator('a').getAttribute('rel'), 'noopener noreferrer');
  await page.waitForFunction(() => document.querySelectorAll('.answer math').length === 2);
  assert.match(await shown.innerText(), /It costs \$5 and \$6\./);
  assert.match(await lastTurn().locator('.thinking summary').innerText(), /^Thought for/);
  assert.ok(await lastTurn().locator('.thinking .thought').isHidden());
  await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: undefined })); // as with plain HTTP
  await page.evaluate(() => document.addEventListener('copy', () => (window.copied = document.getSelection().toString() || document.activeElement.value)));
  await shown.getByRole('button', { name: 'Copy as CSV' }).click();
  await shown.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await page.evaluate(() => window.copied), 'a,b\n"x, y",2');
  await shoot('desktop-markdown');
  await checkAccess('Markdown');
});

story('the last question as code: curl that works', async () => {
  await open();
  await choose('shapes-4.png');
  await likeliest();
  await page.click('#describe');
  const said = await answer();
  await lastTurn().getByRole('button', { name: 'Code' }).click();
  const [curl, python, js] = await page.locator('#code-list pre').allInnerTexts();
  const reply = execFileSync('bash', ['-c', curl], { cwd: examples, encoding: 'utf8' });
  assert.equal(JSON.parse(reply).choices[0].message.content, said);
  assert.match(python, /image\("shapes-4\.png"\)/);
  const out = execFileSync('node', ['--input-type=module', '-e', js], { cwd: examples, encoding: 'utf8' });
  assert.equal(out.trim(), said);
  await checkAccess('code');
  await page.keyboard.press('Escape');
  assert.ok(await page.isHidden('#code'));
});

story('zoom: wheel, buttons, keys', async () => {
  await open();
  await choose('shapes-4.png');
  const width = () => page.evaluate(() => document.getElementById('frame').getBoundingClientRect().width);
  const fitted = await width();
  await page.click('#zoom-in');
  assert.ok((await width()) > fitted * 1.4);
  await page.focus('#stage');
  await page.keyboard.press('0');
  assert.equal(await width(), fitted);
  await page.keyboard.press('+');
  assert.ok((await width()) > fitted * 1.4);
  await page.keyboard.press('ArrowLeft');
  await page.dblclick('#stage');
  assert.equal(await width(), fitted);
});

story('the demo model says what it is', async () => {
  await open();
  await page.locator('#toy:not([hidden])').waitFor();
  assert.match(await page.innerText('#toy'), /demo model[^]*no photos[^]*eyelet pull/);
  await bring('drop', [{ ...fileOf('word-2.jpg', 'image/jpeg'), name: 'IMG_2041.jpg' }]);
  await page.locator('#toy.asked').waitFor();
});

story('the demo model explains itself when it cannot answer', async () => {
  await open();
  await choose('../tests/ui/landscape.jpg');
  await ask('What is this?');
  await answer();
  await page.locator('#toy.asked').waitFor();
});

story('the demo model describes the example that the page draws', async () => {
  await open();
  await page.click('#example');
  await page.locator('#preview').waitFor();
  await ask('How many shapes are there?');
  assert.equal(await answer(), 'Three.');
});

story('every width, 320 to 2,560, light and dark', async () => {
  for (const [width, height] of [[320, 640], [768, 1024], [1024, 768], [1600, 900], [2560, 1440]])
    for (const colorScheme of ['light', 'dark']) {
      await open({ viewport: { width, height }, colorScheme });
      await choose('turned.jpg');
      await page.click('#find');
      await ask('circle');
      await answer();
      await checkWidth(`${width} px`);
      await shoot(`width-${width}-${colorScheme}`);
      await context.close();
    }
  await open();
});

story('the page can be installed on a phone', async () => {
  const manifest = await (await fetch(`${server.url}/manifest.webmanifest`)).json();
  for (const icon of manifest.icons) assert.equal((await fetch(`${server.url}/${icon.src}`)).headers.get('content-type'), icon.type);
  await open();
});

test('refused previews have the API\'s messages', async () => {
  const ask = (body) => fetch(`${server.url}/eyelet/preview`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
  for (const [body, message] of [['{"url": 3}', /send \{"url"/], ['{', /not valid JSON/], ['{"url": "https://example.com/a.png"}', /--allowed-media-domains/],
    ['{"url": "file:///etc/passwd"}', /file/], ['{"url": "data:image/png;base64,AAAA"}', /not an image/]]) {
    const response = await ask(body);
    assert.equal(response.status, 400, body);
    assert.match((await response.json()).error.message, message);
  }
  const response = await ask(JSON.stringify({ url: `data:image/jpeg;base64,${readFileSync(`${examples}/turned.jpg`).toString('base64')}` }));
  assert.equal(response.headers.get('image-size'), '300x420');
  assert.equal(response.headers.get('content-type'), 'image/jpeg');
  assert.equal(response.headers.get('document-pages'), null);
  const png = `data:image/png;base64,${readFileSync(`${examples}/word-1.png`).toString('base64')}`;
  assert.match((await (await ask(JSON.stringify({ url: png, page: 2 }))).json()).error.message, /a single image; it has no page 2/);
  const url = `data:application/pdf;base64,${readFileSync(`${root}/tests/document/data/two.pdf`).toString('base64')}`;
  const page2 = await ask(JSON.stringify({ url, page: 2 }));
  assert.equal(page2.headers.get('content-type'), 'image/jpeg');
  assert.equal(page2.headers.get('document-pages'), '2');
  assert.match((await (await ask(JSON.stringify({ url, page: 3 }))).json()).error.message, /2 pages, but no page 3/);
  assert.match((await (await ask(JSON.stringify({ url, page: 0 }))).json()).error.message, /whole number from 1 on/);
});
