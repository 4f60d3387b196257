/** The code of docs/guide/webhooks-and-mail.md takes what the platform signs, and nothing else. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { newSecret, signedHeaders } from '../../actors/notify/deliveries/webhook-rules.ts';
import { projectRoot } from '../support/project.ts';
import { skipWithout } from '../support/require.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';

const BODY = '{"type":"test","text":"Größe"}';

/** What a receiver may be sent: whether it is to be taken, its headers, its body and the secret. */
function cases() {
  const [secret, other, now] = [newSecret(), newSecret(), Date.now()];
  const good = signedHeaders('event-1', BODY, now, [secret]);
  const signature = String(good['webhook-signature']);
  const one = (taken: boolean, headers: Readonly<Record<string, string>>, body = BODY) => ({ taken, headers, body });
  return {
    secret,
    requests: [
      one(true, good),
      one(true, signedHeaders('event-1', BODY, now, [other, secret])),
      one(false, signedHeaders('event-1', BODY, now, [other])),
      one(false, good, `${BODY} `),
      one(false, { ...good, 'webhook-id': 'event-2' }),
      one(false, { ...good, 'webhook-timestamp': String(Math.floor(now / 1000) - 1) }),
      one(false, signedHeaders('event-1', BODY, now - 400_000, [secret])),
      one(false, { ...good, 'webhook-signature': signature.replace('v1,', 'v2,') }),
      one(false, { ...good, 'webhook-signature': '' }),
      one(false, { ...good, 'webhook-timestamp': 'now' }),
    ],
  };
}

async function block(language: string): Promise<string> {
  const page = await readFile(join(projectRoot, 'docs/guide/webhooks-and-mail.md'), 'utf8');
  const [, code] = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(page) ?? [];
  return code ?? assert.fail(`the page has no code in ${language}`);
}

/** Runs a program that reads the cases as JSON, and prints which it takes. */
async function run(t: Cleanup, command: string, file: string, code: string): Promise<void> {
  const path = join(await tempDir(t), file);
  await writeFile(path, code);
  const child = spawn(command, [path], { stdio: ['pipe', 'pipe', 'inherit'] });
  const given = cases();
  child.stdin.end(JSON.stringify(given));
  let out = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk));
  await once(child, 'close');
  assert.deepEqual(
    z.array(z.boolean()).parse(JSON.parse(out)),
    given.requests.map(({ taken }) => taken),
  );
}

describe('the code of the guide', () => {
  test('in Node', async (t) => {
    const code = `${await block('js')}
      let text = '';
      for await (const chunk of process.stdin.setEncoding('utf8')) text += chunk;
      const { secret, requests } = JSON.parse(text);
      console.log(JSON.stringify(requests.map(({ headers, body }) => isFromPlatform(headers, body, secret))));`;
    await run(t, process.execPath, 'verify.mjs', code);
  });

  test('in Python', { skip: skipWithout('python3') }, async (t) => {
    const code = `${await block('python')}
import json
import sys

given = json.load(sys.stdin)
print(json.dumps([is_from_platform(one["headers"], one["body"].encode(), given["secret"]) for one in given["requests"]]))
`;
    await run(t, 'python3', 'verify.py', code);
  });
});
