// Opens every page of the documentation site from disk, and prints one JSON object.
//
//   node open_site.mjs CHROMIUM FOLDER WORD
// Pages are opened at 380 and 1280 pixels, in light and in dark; WORD is typed into the search of the first page.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, folder, word] = process.argv.slice(2);
const files = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".html"));
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const pages = [];
  let page, remote = [], errors = [];
  for (const scheme of ["light", "dark"]) {
    page = await (await browser.createBrowserContext()).newPage();  // a page remembers the first scheme
    page.on("request", (request) => /^(file|data|blob):/.test(request.url()) || remote.push(request.url()));
    page.on("pageerror", (error) => errors.push(error.message));
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    for (const file of files) {
      [remote, errors] = [[], []];
      await page.goto(pathToFileURL(join(folder, file)).href, { waitUntil: "load" });
      for (const width of [380, 1280]) {
        await page.setViewport({ width, height: 900 });
        const found = await page.evaluate(() => ({
          overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
          background: getComputedStyle(document.body).backgroundColor,
          broken: [...document.images].filter((image) => image.complete && !image.naturalWidth).map((image) => image.src),
        }));
        pages.push({ file, scheme, width, remote, errors, ...found });
      }
    }
  }
  await page.goto(pathToFileURL(join(folder, "index.html")).href, { waitUntil: "load" });
  await page.keyboard.press("/");
  await page.waitForSelector(".md-search__input");
  await page.focus(".md-search__input");
  await page.keyboard.type(word);
  await page.waitForSelector(".md-search-result__link", { timeout: 30000 });
  const results = await page.$$eval(".md-search-result__link", (links) => links.map((link) => link.getAttribute("href")));
  console.log(JSON.stringify({ pages, results }));
} finally {
  await browser.close();
}
