// Opens pages of `shardmill view` in one headless Chromium, acts on them, and says on stdout what came of each, as JSON.
//
//   node open_view.mjs CHROMIUM PAGES     PAGES: [{"url": …, "scheme": "dark", "acts": ["code", …], "screenshot": …}]

import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const { source: axe } = createRequire(import.meta.url)("axe-core");
const [chromium, pages] = process.argv.slice(2);

async function opened(browser, { url, scheme = "light", acts = [], screenshot, width = 1280, height = 860 }) {
  const page = await browser.newPage();
  const messages = [], elsewhere = [];
  page.on("request", (request) => request.url().startsWith("data:") || new URL(request.url()).host === new URL(url).host ||
    elsewhere.push(request.url()));
  page.on("console", (message) => messages.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => messages.push(`error: ${error.message}`));
  page.on("dialog", async (dialog) => { messages.push(`dialog: ${dialog.message()}`); await dialog.dismiss(); });
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url, { waitUntil: "networkidle0" });
  const states = [];
  for (const act of ["0", ...acts]) {
    await page.evaluate(act);
    await page.waitForNetworkIdle({ idleTime: 300 });
    states.push(await page.evaluate(() => document.getElementById("state").textContent));
  }
  if (screenshot) await page.screenshot({ path: screenshot });
  const found = await page.evaluate(() => ({
    title: document.title,
    text: document.body.innerText,
    cards: document.querySelectorAll(".card").length,
    boxes: document.querySelectorAll(".picture rect").length,
    images: [...document.images].map((image) => image.naturalWidth),
    sounds: document.querySelectorAll("audio").length,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    background: getComputedStyle(document.body).backgroundColor,
  }));
  await page.evaluate(axe);
  const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const violations = result.violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)}`);
  await page.close();
  return { messages, elsewhere, violations, states, ...found };
}

const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const found = [];
  for (const page of JSON.parse(pages)) found.push(await opened(browser, page));
  console.log(JSON.stringify(found));
} finally {
  await browser.close();
}
