/**
 * A tab of Firefox or of WebKit, driven with the commands of W3C WebDriver: Firefox takes them at a socket of its own
 * (Marionette), WebKit by the driver that Debian has for it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { z } from 'zod';
import { findProgram } from '../require.ts';
import { type Cleanup, freePort, tempDir } from '../temp.ts';
import { until } from '../until.ts';

/** The commands, and what WebKit's driver calls them below `/session/<id>/`. */
const PATHS = {
  Navigate: 'url',
  ExecuteAsyncScript: 'execute/async',
  PerformActions: 'actions',
  TakeScreenshot: 'screenshot',
} as const;

/** Sends a command, and resolves with what it gives. */
type Send = (command: keyof typeof PATHS, parameters?: Record<string, unknown>) => Promise<unknown>;

/** A browser with one tab. */
export interface DrivenBrowser {
  /** Such as `Firefox 153.7.0`. */
  readonly name: string;
  readonly send: Send;
  /** Makes its page so large, in CSS pixels. WebKit's window is not narrower than its bar. */
  resize(width: number, height: number): Promise<void>;
  /** What it wrote into its console: errors of scripts, refusals of the policy. */
  complaints(): Promise<string[]>;
}

const capabilitiesSchema = z.object({
  sessionId: z.string(),
  capabilities: z.object({ browserName: z.string(), browserVersion: z.string() }),
});
const nameOf = ({ capabilities }: z.infer<typeof capabilitiesSchema>) =>
  `${capabilities.browserName} ${capabilities.browserVersion}`;

/**
 * Reads the console of Firefox itself, in which all tabs write. A socket that ends because its page is left is told there,
 * too, and is nothing.
 */
const FIREFOX_CONSOLE = `return Services.console.getMessageArray()
  .filter((one) => one instanceof Ci.nsIScriptError && /^(CSP|content javascript)/.test(one.category))
  .map(({ errorMessage, sourceName }) => sourceName + ': ' + errorMessage)`;
/** Its window is not narrower than 500 pixels, but what it shows may be. */
const FIREFOX_RESIZE = `const [width, height] = arguments;
  const { style } = gBrowser.selectedBrowser;
  Object.assign(style, { flex: 'none', width: width + 'px', height: height + 'px' });`;

/** Starts Firefox, ended with `t`. It takes any certificate. */
export async function startFirefox(t: Cleanup): Promise<DrivenBrowser> {
  const profile = await tempDir(t);
  // What asks Mozilla for anything stays off: tests have no other network than their own.
  const preferences = {
    'marionette.port': 0,
    'app.normandy.enabled': false,
    'datareporting.policy.dataSubmissionEnabled': false,
    'network.captive-portal-service.enabled': false,
    'network.connectivity-service.enabled': false,
    'browser.aboutwelcome.enabled': false,
    'browser.startup.page': 0,
  };
  const lines = Object.entries(preferences).map(([name, value]) => `user_pref("${name}", ${JSON.stringify(value)});\n`);
  await writeFile(join(profile, 'user.js'), lines.join(''));
  const flags = ['--headless', '--marionette', '--remote-allow-system-access', '--no-remote', '--profile', profile];
  begin(t, 'firefox-esr', flags, { HOME: profile, MOZ_HEADLESS_WIDTH: '1280', MOZ_HEADLESS_HEIGHT: '900' });
  const file = join(profile, 'MarionetteActivePort');
  await until(() => existsSync(file) && readFileSync(file, 'utf8') !== '', { what: 'Firefox listens', everyMs: 50 });
  const ask = await marionette(t, Number(readFileSync(file, 'utf8')));
  const session = capabilitiesSchema.parse(await ask('WebDriver:NewSession', { acceptInsecureCerts: true }));
  const valueIn = (result: unknown) => z.object({ value: z.unknown() }).safeParse(result).data?.value;
  const inChrome = async (script: string, args: readonly unknown[] = []) => {
    await ask('Marionette:SetContext', { value: 'chrome' });
    const result = await ask('WebDriver:ExecuteScript', { script, args });
    await ask('Marionette:SetContext', { value: 'content' });
    return valueIn(result);
  };
  return {
    name: nameOf(session),
    send: async (command, parameters = {}) => valueIn(await ask(`WebDriver:${command}`, parameters)),
    resize: async (...size) => void (await inChrome(FIREFOX_RESIZE, size)),
    complaints: async () => z.array(z.string()).parse(await inChrome(FIREFOX_CONSOLE)),
  };
}

/** `<length>:[0, id, command, parameters]` there, `<length>:[1, id, error, result]` back; the first frame is a greeting. */
async function marionette(t: Cleanup, port: number) {
  const socket = connect(port, '127.0.0.1');
  t.after(() => void socket.destroy());
  const waiting = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>();
  const frame = z.tuple([z.literal(1), z.number(), z.object({ message: z.string() }).nullable(), z.unknown()]);
  let come = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    come = Buffer.concat([come, chunk]);
    for (;;) {
      const colon = come.indexOf(':');
      const end = colon + 1 + Number(come.toString('latin1', 0, Math.max(colon, 0)));
      if (colon === -1 || come.length < end) return;
      const { data } = frame.safeParse(JSON.parse(come.toString('utf8', colon + 1, end)));
      come = come.subarray(end);
      if (data === undefined) continue;
      const [, id, error, result] = data;
      if (error === null) waiting.get(id)?.resolve(result);
      else waiting.get(id)?.reject(new Error(error.message));
    }
  });
  await once(socket, 'connect');
  let last = 0;
  return (command: string, parameters: Record<string, unknown>) =>
    new Promise((resolve, reject) => {
      const id = ++last;
      waiting.set(id, { resolve, reject });
      const text = JSON.stringify([0, id, command, parameters]);
      socket.write(`${Buffer.byteLength(text)}:${text}`);
    });
}

/** Debian's small browser around WebKitGTK. */
const MINI_BROWSER = `/usr/lib/${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-linux-gnu/webkit2gtk-4.1/MiniBrowser`;

/** Notes in the tab what its page complains about once it is there. */
const LISTEN = `const KEPT = 'complaints';
  const note = (what) => sessionStorage.setItem(KEPT, (sessionStorage.getItem(KEPT) ?? '') + location.href + ': ' + what + '\\n');
  addEventListener('error', ({ message }) => note(message));
  addEventListener('unhandledrejection', ({ reason }) => note(reason));
  addEventListener('securitypolicyviolation', (one) => note(one.effectiveDirective + ' refuses ' + one.blockedURI));
  arguments[0]();`;
const NOTED = "arguments[0](sessionStorage.getItem('complaints') ?? '')";

/** Starts WebKit on a screen of its own, ended with `t`. It takes any certificate. */
export async function startWebKit(t: Cleanup): Promise<DrivenBrowser> {
  const home = await tempDir(t);
  const screen = begin(t, 'Xvfb', ['-displayfd', '1', '-screen', '0', '1400x1000x24', '-nolisten', 'tcp']);
  let written = '';
  screen.stdout?.on('data', (chunk: Buffer) => (written += chunk));
  await until(() => written.endsWith('\n'), { what: 'Xvfb has a screen' });
  const display = `:${written.trim()}`;
  const port = await freePort();
  begin(t, 'WebKitWebDriver', [`--port=${port}`], { HOME: home, DISPLAY: display });
  const ask = async (path: string, body?: unknown, method = body === undefined ? 'GET' : 'POST') => {
    const response = await fetch(`http://127.0.0.1:${port}/${path}`, { method, body: JSON.stringify(body) });
    const { value } = z.object({ value: z.unknown() }).parse(await response.json());
    if (!response.ok) throw new Error(`${path}: ${JSON.stringify(value)}`);
    return value;
  };
  const listens = () =>
    ask('status').then(
      () => true,
      () => false,
    );
  await until(listens, { what: "WebKit's driver listens", everyMs: 50 });
  const options = { binary: MINI_BROWSER, args: ['--automation'] };
  const alwaysMatch = { acceptInsecureCerts: true, 'webkitgtk:browserOptions': options };
  const session = capabilitiesSchema.parse(await ask('session', { capabilities: { alwaysMatch } }));
  t.after(async () => void (await ask(`session/${session.sessionId}`, undefined, 'DELETE')));
  const send: Send = async (command, parameters) => {
    const path = `session/${session.sessionId}/${PATHS[command]}`;
    const result = await ask(path, command === 'TakeScreenshot' ? undefined : parameters);
    if (command === 'Navigate') await send('ExecuteAsyncScript', { script: LISTEN, args: [] });
    return result;
  };
  return {
    name: nameOf(session),
    send,
    resize: async (width, height) => {
      // The window has its bar besides.
      await ask(`session/${session.sessionId}/window/rect`, { width, height: height + 38 });
    },
    complaints: async () => {
      const noted = z.string().parse(await send('ExecuteAsyncScript', { script: NOTED, args: [] }));
      return noted.split('\n').filter((line) => line !== '');
    },
  };
}

/** Starts a program, ended with `t`. */
function begin(t: Cleanup, program: string, flags: readonly string[], env: Record<string, string> = {}): ChildProcess {
  const child = spawn(findProgram(program) ?? program, flags, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  child.stdout?.resume();
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill();
    await once(child, 'exit');
  });
  return child;
}
