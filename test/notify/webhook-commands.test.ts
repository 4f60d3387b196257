/** `troupe webhook` and `troupe mail` as processes, against the running service. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSealKey } from '../../storage/seal.ts';
import { smtpMailer } from '../../transports/clients/mail/smtp.ts';
import { webhookSender } from '../../transports/clients/webhooks/sender.ts';
import { parseNetworks } from '../../transports/clients/webhooks/targets.ts';
import { troupe } from '../support/cluster/platform.ts';
import { startMailServer } from '../support/notify/mail-server.ts';
import { isSigned, startReceiver } from '../support/notify/receiver.ts';
import { openNotify } from '../support/service/notify.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

test('a webhook and mail from the terminal', { timeout: 900_000 }, async (t) => {
  const server = await startMailServer(t);
  const receiver = await startReceiver(t);
  const notify = await openNotify(t, {
    deliveries: {
      sealKey: parseSealKey('33'.repeat(32)),
      sender: webhookSender({ allowed: parseNetworks('127.0.0.0/8') ?? assert.fail() }),
      mailer: smtpMailer({ url: server.url, from: 'n@cloud.test', domain: 'cloud.test', isPlainAllowed: false }),
      lookMs: 20,
    },
  });
  const ann = await notify.person('ann');
  const env = { XDG_CONFIG_HOME: await tempDir(t), TROUPE_URL: notify.url, TROUPE_TOKEN: ann.token };
  const ok = async (...args: string[]) => {
    const { code, stdout, stderr } = await troupe(args, { env });
    assert.equal(code, 0, `troupe ${args.join(' ')}: ${stderr}`);
    return { stdout, stderr };
  };
  const secret = (await ok('webhook', 'add', receiver.url, '--category', 'compute')).stdout.trim();
  assert.match(secret, /^whsec_\S+$/);
  assert.match((await ok('webhook', 'ls')).stdout, /^http:\/\/127\.0\.0\.1:\d+\/hook\tcompute\tok\t0\t[a-z0-9]{12}$/m);
  assert.match((await ok('webhook', 'test', receiver.url)).stderr, /A test is sent/);
  const hook = await until(() => receiver.hooks[0]);
  assert.ok(isSigned(hook, secret));
  const answered = async () => (await ok('webhook', 'deliveries', receiver.url)).stdout;
  await until(async () => /\t204\t\d+ ms\t1\t\t/.test(await answered()));
  assert.ok((await answered()).includes(hook.id));
  const rotated = (await ok('webhook', 'rotate', receiver.url)).stdout.trim();
  assert.ok(/^whsec_\S+$/.test(rotated) && rotated !== secret);
  await ok('webhook', 'disable', receiver.url);
  assert.equal(JSON.parse((await ok('webhook', 'ls', '--json')).stdout)[0].status, 'disabled');
  await ok('webhook', 'enable', receiver.url);
  await ok('webhook', 'rm', receiver.url);
  assert.equal((await ok('webhook', 'ls', '--json')).stdout, '[]\n');

  assert.match((await ok('mail', 'get')).stdout, /^mail\toff$/m);
  assert.match((await ok('mail', 'set', 'ann@example.com')).stderr, /A code was sent to ann@example\.com/);
  const code = /The code is (\d{6})/.exec(server.mails[0]?.text ?? '')?.[1] ?? '';
  assert.match((await ok('mail', 'verify', code)).stderr, /Mail goes to ann@example\.com, of categories \(all\)/);
  assert.equal(JSON.parse((await ok('mail', 'get', '--json')).stdout).verified, true);
  assert.match((await ok('mail', 'set', '--off')).stderr, /Mail is off/);
  const neither = await troupe(['mail', 'set'], { env });
  assert.equal(neither.code, 2, neither.stderr);
});
