/** Every command of people, on a real platform: off a terminal, as JSON by the schemas of its endpoints, and at a terminal. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Command } from 'commander';
import type { z } from 'zod';
import { addClientCommands } from '../../cmd/client/commands.ts';
import { type CommandStep, type CommandWorld, commandSteps, wordsOf } from '../support/client/every-command.ts';
import { atTerminal } from '../support/client/terminal.ts';
import { startBox } from '../support/clients/container.ts';
import { deleteAll, logIn, startPlatform, troupe } from '../support/cluster/platform.ts';
import { perlImage, skipWithoutDocker } from '../support/engine/docker-client.ts';
import { standIn } from '../support/network/dns-provider.ts';
import { startMailServer } from '../support/notify/mail-server.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { skipWithout } from '../support/require.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

/** `ps`, `port ls`, ...: what can be typed. */
function everyCommand(): string[] {
  const program = new Command('troupe');
  addClientCommands(program, () => Promise.reject(new Error('nothing is run')));
  const leaves = (command: Command, path: string): string[] =>
    command.commands.length === 0 ? [path] : command.commands.flatMap((each) => leaves(each, `${path} ${each.name()}`));
  return program.commands.flatMap((each) => leaves(each, each.name())).filter((path) => !path.startsWith('_'));
}

const covers = (path: string, step: CommandStep, world: CommandWorld): boolean =>
  `${wordsOf(step, world).join(' ')} `.startsWith(`${path} `);

/** What a terminal acts on, to be seen in patterns. */
const shownEscapes = (text: string): string => text.replaceAll('\x1b', '<esc>');

async function openWorld(t: Cleanup): Promise<CommandWorld & { readonly token: string }> {
  const data = await tempDir(t);
  const provider = await standIn(t);
  provider.zones.set('dns-token', [
    { id: 'z1', name: 'example.net', status: 'active' },
    { id: 'z2', name: 'example.org', status: 'active' },
  ]);
  const [mail, receiver] = [await startMailServer(t), await startReceiver(t)];
  const platform = await startPlatform({
    data,
    env: {
      ...{ DEFAULT_IMAGE: await perlImage(), DNS_PROVIDER_URL: provider.url, WEBHOOK_ALLOW: '127.0.0.0/8' },
      ...{ SMTP_URL: mail.url, SMTP_FROM: 'platform@cloud.test', SMTP_INSECURE: 'allow' },
    },
  });
  const { urls, admin } = platform.ready;
  let token = '';
  t.after(async () => {
    try {
      await deleteAll(urls.compute, token);
    } finally {
      await platform.stop();
    }
  });
  token = await logIn(urls.auth, admin.username, admin.password ?? '');
  const box = await startBox(urls.compute, token, data);
  await writeFile(join(data, 'note'), 'a note\n');
  return {
    ...{ data, token, keyFile: box.keyFile, password: admin.password ?? '', hookUrl: receiver.url },
    hooks: () => receiver.hooks.length,
    mailCode: () => /The code is (\d{6})/.exec(mail.mails.at(-1)?.text ?? '')?.[1] ?? '',
  };
}

test('every command', { skip: skipWithoutDocker() || skipWithout('script'), timeout: 900_000 }, async (t) => {
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  // The last first: the platform is stopped before its folder goes.
  const world = await openWorld({ after: (end) => void ends.unshift(end) });
  const env = { XDG_CONFIG_HOME: join(world.data, 'config'), TROUPE_URL: '', TROUPE_TOKEN: '', FORCE_COLOR: '' };
  const run = async (step: CommandStep, words: readonly string[]) => {
    const { code, stdout, stderr } = await troupe(words, {
      env: { ...env, NO_COLOR: '' },
      ...(step.input === undefined ? {} : { input: step.input(world) }),
    });
    const told = `troupe ${words.join(' ')}\n${stdout}${stderr}`;
    assert.equal(code, step.code ?? 0, told);
    if (!step.isForeign) assert.ok(!(stdout + stderr).includes('\x1b'), told);
    assert.doesNotMatch(stderr, /^ {4}at |\[[yY]\/[nN]\]/m, told);
    return { stdout, stderr, told };
  };
  const steps = commandSteps();

  await t.test('each of them is tried here', () => {
    const commands = everyCommand();
    assert.ok(commands.length > 60);
    assert.deepEqual(
      commands.filter((path) => !steps.some((step) => covers(path, step, world))),
      [],
    );
  });

  for (const step of steps) {
    await t.test(wordsOf(step, world).slice(0, 3).join(' '), async () => {
      await step.first?.(world);
      const words = wordsOf(step, world);
      const asText = async () => {
        const { stdout, stderr, told } = await run(step, words);
        if (step.heads !== undefined) assertTable(stdout, step.heads, told);
        if (step.says !== undefined) assert.match(stdout + stderr, step.says);
        if (step.code !== undefined && !step.isForeign) assert.match(stderr, /^troupe: \S/m, told);
      };
      const { json } = step;
      const asJson = async () => json && assertJson(step, await run(step, [...words, '--json']), json);
      await Promise.all([json === undefined || step.heads !== undefined ? asText() : undefined, asJson()]);
    });
  }

  await t.test('at a terminal', (terminal) => atTerminals(terminal, { world, env, box: 'box' }));
});

/** A header and rows with as many cells, a tab apart: whatever the width is, and whoever reads it. */
function assertTable(stdout: string, heads: string, told: string): void {
  const [first, ...rows] = stdout.trimEnd().split('\n');
  assert.equal(first, heads.replaceAll(',', '\t'), told);
  for (const row of rows) assert.equal(row.split('\t').length, heads.split(',').length, told);
}

function assertJson(step: CommandStep, { stdout, stderr, told }: Readonly<Record<string, string>>, schema: z.ZodType) {
  const text = stdout || stderr || '';
  const lines = step.isLines ? text.trimEnd().split('\n') : [text];
  for (const line of lines) {
    const { error } = schema.safeParse(JSON.parse(line));
    assert.equal(error, undefined, told);
  }
}

type Opened = Awaited<ReturnType<typeof atTerminal>>;

/** A provider's token is asked for without an echo, and its zones are named from then on. */
async function connectsProvider(
  open: (...words: string[]) => Promise<Opened>,
  shown: (...words: string[]) => Promise<{ readonly code: number | null; readonly screen: string }>,
): Promise<void> {
  const connect = async (token: string) => {
    const opened = await open('dns', 'connect');
    await until(() => opened.screen().includes('API token of Cloudflare'), { what: 'it asks', timeoutMs: 60_000 });
    opened.type(`${token}\r`);
    const code = await opened.ended;
    assert.ok(!opened.screen().includes(token), opened.screen());
    return { code, screen: opened.screen() };
  };
  const none = 'No DNS provider is connected: `troupe dns connect`.\r\n';
  assert.equal((await shown('dns', 'ls')).screen, none);
  assert.equal((await connect('another-token')).code, 2);
  const connected = await connect('dns-token');
  assert.equal(connected.code, 0, connected.screen);
  assert.match(connected.screen, /\r\nConnected example\.net, example\.org \(\S+\)\. Their records are made for you/);
  assert.match((await shown('dns', 'ls')).screen, /ZONES .*\r\nexample\.net, example\.org {2,}\d+s {2,}\S+\r\n$/);
  assert.equal((await shown('dns', 'refresh', 'example.org')).screen, 'Its zones are example.net, example.org.\r\n');
  const missing = await shown('dns', 'rm', 'other');
  assert.equal(missing.code, 5);
  assert.equal(missing.screen, 'troupe: There is no connection other: there is example.net, example.org.\r\n');
  assert.equal(
    (await shown('dns', 'rm', 'example.org')).screen,
    'The connection to example.net, example.org is gone; hostnames and records stay.\r\n',
  );
  assert.equal((await shown('dns', 'ls')).screen, none);
}

interface Terminals {
  readonly world: CommandWorld;
  readonly env: Readonly<Record<string, string>>;
  readonly box: string;
}

/** What only a person sees: colours and shapes, times as ages, questions, and what to do next. */
async function atTerminals(t: Cleanup, { world: { data, password }, env, box }: Terminals): Promise<void> {
  const login = ['login', '--data', data, '--user', 'admin', '--password-stdin'];
  assert.equal((await troupe(login, { env, input: `${password}\n` })).code, 0);
  const open = async (...words: string[]) => {
    const opened = await atTerminal(words, { folder: data, env: { ...env, TERM: 'xterm' } });
    t.after(opened.stop);
    return opened;
  };
  const shown = async (...words: string[]) => {
    const opened = await open(...words);
    return { code: await opened.ended, screen: shownEscapes(opened.screen()) };
  };
  const list = await shown('ps');
  assert.match(
    list.screen,
    /^<esc>\[2mNAME {2,}STATUS {2,}SIZE.*<esc>\[22m\r\nbox {2,}<esc>\[32m● running<esc>\[39m .* \d+[smh] /m,
  );
  assert.doesNotMatch((await shown('ps', '--color', 'never')).screen, /<esc>/);
  assert.equal(
    (await shown('api-token', 'ls')).screen,
    'You have no API token: `troupe api-token create` makes one.\r\n',
  );
  assert.match((await shown('show', box)).screen, /<esc>\[2mcreated {2,}<esc>\[22m {2}\d+[smh] ago\r\n/);

  const refused = await open('rm', box);
  await until(() => refused.screen().includes('Type its name'), { what: 'it asks', timeoutMs: 60_000 });
  refused.type('other\r');
  assert.equal(await refused.ended, 1);
  assert.match(refused.screen(), /troupe: Nothing was deleted\.\r\n$/);

  const interrupted = await open('rm', box);
  await until(() => interrupted.screen().includes('Type its name'), { what: 'it asks', timeoutMs: 60_000 });
  interrupted.type('\x03');
  assert.equal(await interrupted.ended, 130);
  assert.match(interrupted.screen(), /\r\ntroupe: Interrupted\.\r\n$/);

  const secret = await open('login', '--data', data, '--user', 'admin');
  await until(() => secret.screen().includes('Password of admin: '), { what: 'it asks', timeoutMs: 60_000 });
  secret.type(`${password}\r`);
  assert.equal(await secret.ended, 0, secret.screen());
  assert.ok(!secret.screen().includes(password));

  await connectsProvider(open, shown);

  // Busybox asks for the place of the cursor at each prompt: a terminal answers, and ~ is at the beginning all the same.
  const shell = await open('shell', box);
  await until(() => shell.screen().includes('\x1b[6n'), { what: 'the prompt is there', timeoutMs: 60_000 });
  shell.type('\x1b[5;5R');
  shell.type('~?');
  await until(() => shell.screen().includes('hang up: the shell ends'), { what: 'the list of ~', timeoutMs: 60_000 });
  shell.type('~.');
  await shell.ended;
  const stopped = await shown('stop', box, '--wait');
  assert.match(stopped.screen, /box is stopped\.\r\n$/);
  const closed = await shown('shell', box);
  assert.equal(closed.code, 6);
  assert.equal(closed.screen, 'troupe: The container is stopped: start it first.\r\n');
}
