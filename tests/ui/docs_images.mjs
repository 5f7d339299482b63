// SPDX-License-Identifier: Apache-2.0
// EYELET=build/eyelet node tests/ui/docs_images.mjs: makes docs/images/page.png and front.png.
import { execFileSync } from 'node:child_process';
import { chromium } from 'playwright-core';
import { root, startServer } from '../node/server.mjs';

const images = `${root}/docs/images`;
const eyelet = process.env.EYELET || `${root}/build/eyelet`;
const escaped = (text) => text.replace(/[&<]/g, (c) => (c === '&' ? '&amp;' : '&lt;'));

/* The terminal output of a command, after its command line. */
function printed(shown, ...args) {
  const text = execFileSync('script', ['-qec', [eyelet, ...args].join(' '), '/dev/null'], { cwd: `${root}/examples`, env: { ...process.env, EYELET_MODEL: `${root}/models/demo`, COLUMNS: '80' } })
    .toString().replace(/\r|\x1b\[[0-9;?]*[A-Za-z]/g, '');
  return `<b>$</b> ${escaped(shown)}\n${escaped(text.trimEnd())}\n\n`;
}

const server = await startServer('--served-model-name', 'demo');
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
try {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 860 } })).newPage();
  await page.goto(server.url);
  const settled = (n) => page.waitForFunction((count) => document.querySelectorAll('.turn .took').length === count, n);
  await page.evaluate(() => (document.getElementById('temperature').value = '0'));
  await page.setInputFiles('#file', `${root}/examples/shapes-4.png`);
  await page.click('#describe');
  await settled(1);
  await page.fill('#question', 'How many shapes are there?');
  await page.press('#question', 'Enter');
  await settled(2);
  await page.waitForTimeout(500); // until animations have ended
  await page.screenshot({ path: `${images}/page.png` });
  await page.click('#find');
  await page.fill('#question', 'square');
  await page.press('#question', 'Enter');
  await settled(3);
  await page.locator('.turn').last().scrollIntoViewIfNeeded();
  await page.waitForTimeout(500);
  const shot = (await page.screenshot()).toString('base64');

  const terminal = printed('eyelet read word-2.jpg', 'read', 'word-2.jpg', '--quiet') +
    printed('eyelet detect shapes-4.png square', 'detect', 'shapes-4.png', 'square', '--quiet') +
    '<b>$</b> eyelet caption photos/ --csv -o captions.csv\n<b>$</b> eyelet serve\neyelet ready on http://127.0.0.1:8000\n\n' +
    '<i># The demo model that comes with the source:\n# a toy that knows shapes and printed words</i>';
  const front = await (await browser.newContext({ viewport: { width: 1600, height: 560 } })).newPage();
  await front.setContent(`<!DOCTYPE html><style>
    body { margin: 0; padding: 16px; box-sizing: border-box; height: 560px; display: flex; gap: 24px; background: #fff; }
    img, pre { height: 528px; border-radius: 10px; box-shadow: 0 1px 12px #0003; margin: 0; }
    img { width: 786px; }
    pre { flex: 1; min-width: 0; box-sizing: border-box; padding: 20px; background: #1b1a18; color: #eee; font: 15px/23px 'DejaVu Sans Mono', monospace; }
    b { color: #e0a84e; } i { color: #8d877c; font-style: normal; }
    </style><img src="data:image/png;base64,${shot}"><pre>${terminal}</pre>`);
  await front.screenshot({ path: `${images}/front.png` });
} finally {
  await browser.close();
  await server.stop();
}
