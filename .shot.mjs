import { chromium } from 'playwright-core';
const ready = JSON.parse((await import('node:fs')).readFileSync('/tmp/my-up.json','utf8'));
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: 'light' });
const page = await context.newPage();
page.on('console', m => { if (m.type()==='error'||/violat|Refused/.test(m.text())) console.log('CONSOLE', m.text().slice(0,200)); });
page.on('pageerror', e => console.log('PAGEERROR', e.message));
const shot = async (name) => { await page.waitForTimeout(700); await page.screenshot({ path: `/tmp/shots/${name}.png` }); console.log('shot', name, page.url()); };
await page.goto(ready.urls.console); await shot('1-login');
await page.fill('input[name=username], input[autocomplete~=username]', 'admin');
await page.fill('input[type=password]', ready.admin.password);
await page.keyboard.press('Enter'); await page.waitForURL(/containers/, {timeout: 20000}).catch(()=>{});
await shot('2-list-empty');
for (const [n, path] of [['create','/containers/new'],['hostnames','/hostnames'],['activity','/activity'],['keys','/keys'],['tokens','/tokens'],['settings','/settings'],['nowhere','/nowhere/at/all']]) {
  await page.goto(new URL(path, ready.urls.console).href); await shot(`3-${n}`);
}
await context.storageState({ path: '/tmp/state.json' });
await browser.close();
