// Opens pages in one headless Chromium, in light and in dark, and says on stdout what came of each, as JSON.
//
//   node open_pages.mjs CHROMIUM PAGES     PAGES: [{"file": …, "axe": true, "screenshot": …, "at": …, "width": …, "height": …}]
// A screenshot is of the window, in light; "at" is the heading that stands at its top.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const { source: axe } = createRequire(import.meta.url)("axe-core");
const [chromium, pages] = process.argv.slice(2);

async function opened(browser, { file, axe: checked = true, screenshot, at, width = 1280, height = 900 }, scheme) {
  const page = await browser.newPage();
  const url = pathToFileURL(file).href;
  const requests = [], messages = [];
  page.on("request", (request) => request.url() === url || request.url().startsWith("data:") || requests.push(request.url()));
  page.on("console", (message) => messages.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => messages.push(`error: ${error.message}`));
  page.on("dialog", async (dialog) => { messages.push(`dialog: ${dialog.message()}`); await dialog.dismiss(); });
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url, { waitUntil: "load" });
  const found = await page.evaluate(() => {
    // Of closed details, too; cells are apart, which textContent lays together
    const textsOf = (node) => (node.nodeType === Node.TEXT_NODE ? [node.data] : [...node.childNodes].flatMap(textsOf));
    return {
      title: document.title,
      background: getComputedStyle(document.body).backgroundColor,
      scripts: document.scripts.length,
      handlers: [...document.querySelectorAll("*")].flatMap((e) => e.getAttributeNames()).filter((n) => n.startsWith("on")),
      images: [...document.images].map((image) => image.naturalWidth),
      text: textsOf(document.body).join(" ").replace(/\s+/g, " "),
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    };
  });
  if (at) await page.evaluate((text) => [...document.querySelectorAll("h2")].find((h) => h.textContent === text).scrollIntoView(), at);
  if (screenshot && scheme === "light") await page.screenshot({ path: screenshot });
  let violations = [];
  if (checked) {
    await page.evaluate(axe);  // not by a tag, which the page's policy forbids
    const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    violations = result.violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
  }
  await page.emulateMediaType("print");
  await page.setViewport({ width: 1588, height });  // A4 twice: Chromium shrinks what it prints to half at most
  Object.assign(found, await page.evaluate(() => {
    const [body, root] = [document.body, document.documentElement].map((element) => getComputedStyle(element));
    return {
      printed: body.backgroundColor,
      printedInks: ["ink", "dim", "good", "warn", "bad", "fill", "other"].map((name) => root.getPropertyValue(`--${name}`)),
      printedOverflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    };
  }));
  await page.close();
  return { file, scheme, requests, messages, violations, ...found };
}

const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const results = [];
  for (const page of JSON.parse(pages)) for (const scheme of ["light", "dark"]) results.push(await opened(browser, page, scheme));
  console.log(JSON.stringify(results));
} finally {
  await browser.close();
}
