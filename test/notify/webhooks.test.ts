/** Webhooks: a real receiver gets what their user is told, signed, at least once. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { webhookAnswerSchema, webhookSchema } from '../../proto/notify/webhooks.ts';
import { readAudit } from '../../storage/audit.ts';
import { parseSealKey } from '../../storage/seal.ts';
import { webhookSender } from '../../transports/clients/webhooks/sender.ts';
import { parseNetworks } from '../../transports/clients/webhooks/targets.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { isSigned, startReceiver } from '../support/notify/receiver.ts';
import { type NotifyOptions, openNotify } from '../support/service/notify.ts';
import type { Person } from '../support/service/people.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const SEAL_KEY = parseSealKey('33'.repeat(32));
const here = parseNetworks('127.0.0.0/8') ?? assert.fail();
const HOOKS = '/api/notifications/webhooks';
/** The longest pauses after the first failures, and how long one is tried. */
const PAUSES = [5000, 30_000, 120_000] as const;
/** Longer than the clock is moved in any test, seconds. */
const LONG = 100 * 86_400;
const DAY = 24 * 3_600_000;
const madeSchema = webhookSchema.extend({ secret: z.string() }).strict();

/** A service that calls receivers of this machine. */
async function opened(t: TestContext, options: NotifyOptions = {}) {
  const sender = webhookSender({ allowed: here });
  const notify = await openNotify(t, {
    deliveries: { sealKey: SEAL_KEY, sender, mailer: undefined, lookMs: 20 },
    ...options,
  });
  return Object.assign(notify, {
    async hook(person: Person, url: string, categories: readonly string[] = []) {
      const { status, json } = await notify.request(person, 'POST', HOOKS, { url, categories });
      assert.equal(status, 201, JSON.stringify(json));
      return madeSchema.parse(json);
    },
    async shown(person: Person, id: string) {
      return webhookSchema.strict().parse((await notify.get(person, `${HOOKS}/${id}`)).json);
    },
    async answers(person: Person, id: string) {
      const { json } = await notify.get(person, `${HOOKS}/${id}/deliveries`);
      return z.array(webhookAnswerSchema.strict()).parse(json.list);
    },
  });
}

test('what a user is told reaches the webhook, signed, and its answer is listed', async (t) => {
  const notify = await opened(t);
  const receiver = await startReceiver(t);
  const ann = await notify.person('ann', LONG);
  const made = await notify.hook(ann, receiver.url);
  assert.match(made.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const eventId = await notify.publish(ann, { title: 'Container "web" started' });
  const hook = await until(() => receiver.hooks[0], { what: 'it arrives' });
  assert.deepEqual([hook.id, hook.body.type, hook.body.data.user_id], [eventId, 'notification', ann.id]);
  assert.equal(hook.body.data.title, 'Container "web" started');
  assert.ok(isSigned(hook, made.secret));
  assert.ok(!isSigned({ ...hook, text: `${hook.text} ` }, made.secret));
  const answer = await until(async () => (await notify.answers(ann, made.id))[0]);
  assert.ok(answer.ms >= 0);
  assert.deepEqual([answer.event_id, answer.status, answer.error, answer.attempt], [eventId, 204, '', 1]);
  assert.deepEqual((await notify.shown(ann, made.id)).status, 'ok');
});

test('a delivery that fails comes again with the same id and body, later each time, until it succeeds', async (t) => {
  const notify = await opened(t);
  const receiver = await startReceiver(t, (_, n) => (n < 4 ? 503 : 200));
  const ann = await notify.person('ann', LONG);
  const { id, secret } = await notify.hook(ann, receiver.url);
  const eventId = await notify.publish(ann);
  for (let n = 1; n <= 4; n++) {
    await until(async () => (await notify.answers(ann, id)).length === n, { what: `answer ${n}` });
    assert.equal(receiver.hooks.length, n);
    if (n < 4) assert.equal((await notify.shown(ann, id)).status, 'retrying');
    notify.clock.advance(PAUSES[n - 1] ?? 0);
  }
  assert.deepEqual(new Set(receiver.hooks.map((hook) => hook.id)), new Set([eventId]));
  assert.equal(new Set(receiver.hooks.map(({ text }) => text)).size, 1);
  assert.ok(receiver.hooks.every((hook) => isSigned(hook, secret)));
  // The time is that of each try, so that a receiver can refuse what is old.
  const times = receiver.hooks.map(({ headers }) => Number(headers['webhook-timestamp']));
  assert.ok(times.every((time, index) => index === 0 || time > (times[index - 1] ?? 0)));
  const answers = await notify.answers(ann, id);
  assert.deepEqual(
    answers.map(({ status, attempt }) => [status, attempt]),
    [
      [200, 4],
      [503, 3],
      [503, 2],
      [503, 1],
    ],
  );
  assert.equal(answers[1]?.error, 'It answered 503, where 200 to 299 was expected.');
  const shown = await notify.shown(ann, id);
  assert.deepEqual([shown.status, shown.failing_since, shown.waiting], ['ok', null, 0]);
});

test('after a day a delivery is given up, and after ten in a row the webhook is disabled and its user told', async (t) => {
  const notify = await opened(t);
  const receiver = await startReceiver(t, () => 500);
  const ann = await notify.person('ann', LONG);
  const { id } = await notify.hook(ann, receiver.url);
  const giveUp = async (many: number) => {
    const before = receiver.hooks.length;
    for (let n = 0; n < many; n++) await notify.publish(ann);
    await until(() => receiver.hooks.length >= before + many, { what: 'each is tried' });
    await until(async () => (await notify.shown(ann, id)).waiting === many, { what: 'all wait' });
    notify.clock.advance(DAY);
    await until(async () => (await notify.shown(ann, id)).waiting === 0, { what: 'none waits' });
  };
  await giveUp(1);
  const failing = await notify.shown(ann, id);
  assert.deepEqual([failing.status, failing.enabled], ['failing', true]);
  await giveUp(9);
  const disabled = await notify.shown(ann, id);
  assert.deepEqual([disabled.status, disabled.enabled, disabled.disabled_because], ['disabled', false, 'dead']);
  const told = await until(async () => (await notify.list(ann, '?category=webhooks'))[0]);
  assert.match(told.message, /^Your webhook to 127\.0\.0\.1:\d+ is disabled/);
  // Enabled again it begins anew, and gets nothing of what was in between.
  await notify.request(ann, 'PATCH', `${HOOKS}/${id}`, { enabled: true });
  const again = await notify.shown(ann, id);
  assert.deepEqual([again.status, again.disabled_because, again.failing_since], ['ok', '', null]);
});

test('410 disables at once, and what waits is dropped', async (t) => {
  const notify = await opened(t);
  const receiver = await startReceiver(t, (_, n) => (n === 1 ? 500 : 410));
  const ann = await notify.person('ann', LONG);
  const { id } = await notify.hook(ann, receiver.url);
  await notify.publish(ann, { title: 'first' });
  await until(async () => (await notify.answers(ann, id)).length === 1);
  await notify.publish(ann, { title: 'second' });
  const shown = await until(async () => {
    const now = await notify.shown(ann, id);
    return now.enabled ? undefined : now;
  });
  assert.deepEqual([shown.disabled_because, shown.waiting], ['gone', 0]);
  notify.clock.advance(DAY);
  assert.deepEqual((await notify.request(ann, 'POST', `${HOOKS}/${id}/test`)).status, 409);
  assert.deepEqual(receiver.titles(), ['first', 'second']);
});

test('redirects are not followed, and of a long answer only the beginning is read', async (t) => {
  const notify = await opened(t);
  const elsewhere = await startReceiver(t);
  const endless = (response: ServerResponse) => {
    response.writeHead(200);
    const write = () => {
      while (!response.destroyed && response.write(Buffer.alloc(1024)));
    };
    response.on('drain', write);
    write();
  };
  const receiver = await startReceiver(t, (_, n) =>
    n === 1 ? (response) => response.writeHead(302, { location: elsewhere.url }).end() : endless,
  );
  const ann = await notify.person('ann', LONG);
  const { id } = await notify.hook(ann, receiver.url);
  await notify.publish(ann);
  const redirected = await until(async () => (await notify.answers(ann, id))[0]);
  assert.deepEqual([redirected.status, redirected.error], [302, 'It answered 302: redirects are not followed.']);
  notify.clock.advance(PAUSES[0]);
  const read = await until(async () => (await notify.answers(ann, id)).find(({ attempt }) => attempt === 2));
  assert.deepEqual([read.status, read.error], [200, '']);
  assert.equal(elsewhere.hooks.length, 0);
});

test('a receiver that does not answer holds up neither other users nor the end of the service', async (t) => {
  const notify = await opened(t);
  const held: ServerResponse[] = [];
  const slow = await startReceiver(t, () => (response) => void held.push(response));
  const quick = await startReceiver(t);
  const [ann, bob] = [await notify.person('ann'), await notify.person('bob')];
  await notify.hook(ann, slow.url);
  await notify.hook(bob, quick.url);
  for (let n = 0; n < 20; n++) await notify.publish(ann, { title: `slow ${n}` });
  await until(() => held.length === 2, { what: 'two are under way' });
  for (let n = 0; n < 5; n++) await notify.publish(bob, { title: `quick ${n}` });
  await until(() => quick.hooks.length === 5, { what: 'bob has all of his' });
  assert.equal(held.length, 2);
  await notify.end();
});

test('a user has five webhooks, of their own alone, each for the categories it names and without what is muted', async (t) => {
  const notify = await opened(t);
  const receiver = await startReceiver(t);
  const [ann, bob] = [await notify.person('ann'), await notify.person('bob')];
  const all = await notify.hook(ann, `${receiver.url}/all`);
  const some = await notify.hook(ann, `${receiver.url}/some`, ['backup']);
  for (let n = 0; n < 3; n++) await notify.hook(ann, `${receiver.url}/other`, ['never']);
  const sixth = await notify.request(ann, 'POST', HOOKS, { url: receiver.url });
  assert.deepEqual([sixth.status, sixth.json.code], [403, 'limit_reached']);
  for (const path of ['', '/deliveries'])
    assert.equal((await notify.get(bob, `${HOOKS}/${all.id}${path}`)).status, 404, path);
  for (const path of ['/test', '/rotate'])
    assert.equal((await notify.request(bob, 'POST', `${HOOKS}/${all.id}${path}`)).status, 404, path);
  assert.equal((await notify.request(bob, 'DELETE', `${HOOKS}/${all.id}`)).status, 404);
  assert.equal((await notify.request(bob, 'PATCH', `${HOOKS}/${all.id}`, { enabled: false })).status, 404);
  const unchanged = await notify.request(ann, 'PATCH', `${HOOKS}/${all.id}`, {});
  assert.deepEqual([unchanged.status, unchanged.json], [200, await notify.shown(ann, all.id)]);
  assert.deepEqual(await readAudit(notify.db, { action: 'webhook.update', limit: 1 }), []);

  await notify.request(ann, 'PUT', '/api/notifications/mutes', { category: 'compute', scope: 'muted' });
  await notify.publish(ann, { title: 'muted', scope: 'muted' });
  await notify.publish(bob, { title: "bob's" });
  await notify.publish(ann, { title: 'one', category: 'compute' });
  await notify.publish(ann, { title: 'two', category: 'backup' });
  const came = () => receiver.hooks.map(({ path, body }) => `${path} ${body.data.title}`).sort();
  await until(() => came().length >= 3);
  assert.deepEqual(came(), ['/hook/all one', '/hook/all two', '/hook/some two']);
  await notify.request(ann, 'DELETE', `${HOOKS}/${some.id}`);
  const list = z.array(webhookSchema).parse((await notify.get(ann, HOOKS)).json.list);
  assert.equal(list.length, 4);
  assert.ok(!JSON.stringify(list).includes('whsec_'));
});

test('what came before a webhook is not sent to it, a test is, and while it is disabled nothing is', async (t) => {
  const notify = await opened(t);
  const receiver = await startReceiver(t);
  const ann = await notify.person('ann', LONG);
  await notify.stored(ann, ['before']);
  const { id } = await notify.hook(ann, receiver.url);
  const sent = z
    .object({ event_id: z.string() })
    .parse((await notify.request(ann, 'POST', `${HOOKS}/${id}/test`)).json);
  const hook = await until(() => receiver.hooks[0]);
  assert.deepEqual([hook.body.type, hook.id], ['test', sent.event_id]);
  await notify.request(ann, 'PATCH', `${HOOKS}/${id}`, { enabled: false });
  assert.equal((await notify.shown(ann, id)).disabled_because, 'user');
  await notify.stored(ann, ['meanwhile']);
  await notify.request(ann, 'PATCH', `${HOOKS}/${id}`, { enabled: true });
  await notify.publish(ann, { title: 'after' });
  await until(() => receiver.titles().includes('after'));
  assert.deepEqual(receiver.titles(), ['Test', 'after']);
});

test('after a rotation both secrets sign for a day, then the new one alone', async (t) => {
  const notify = await opened(t);
  const receiver = await startReceiver(t);
  const ann = await notify.person('ann', LONG);
  const { id, secret } = await notify.hook(ann, receiver.url);
  const rotated = madeSchema.parse((await notify.request(ann, 'POST', `${HOOKS}/${id}/rotate`)).json);
  assert.notEqual(rotated.secret, secret);
  await notify.publish(ann);
  const both = await until(() => receiver.hooks[0]);
  assert.deepEqual([isSigned(both, secret), isSigned(both, rotated.secret)], [true, true]);
  notify.clock.advance(DAY);
  await notify.publish(ann);
  const one = await until(() => receiver.hooks[1]);
  assert.deepEqual([isSigned(one, secret), isSigned(one, rotated.secret)], [false, true]);
});

test('secrets are sealed in the database and come up in no log', async (t) => {
  const notify = await opened(t);
  const receiver = await startReceiver(t, () => 500);
  const ann = await notify.person('ann', LONG);
  const { id, secret } = await notify.hook(ann, receiver.url);
  await notify.publish(ann);
  await until(async () => (await notify.answers(ann, id)).length === 1);
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const row = await notify.outside.one(z.object({ all: z.string() }), 'select webhooks::text as all from webhooks');
  for (const form of [secret, secret.slice('whsec_'.length), key.toString('hex')]) {
    assert.ok(!row?.all.includes(form));
    assert.ok(!JSON.stringify(notify.log.lines).includes(form));
  }
});

test('an address that must not be called is refused at once, with a sentence', async (t) => {
  const notify = await opened(t, {
    deliveries: {
      sealKey: SEAL_KEY,
      sender: webhookSender({ allowed: () => false, resolve: async () => ['10.0.0.1'] }),
      mailer: undefined,
    },
  });
  const ann = await notify.person('ann', LONG);
  for (const url of [
    'https://127.0.0.1/',
    'https://internal.example.com/',
    'ftp://example.com/',
    'https://u:p@x.com/',
  ]) {
    const refused = await notify.request(ann, 'POST', HOOKS, { url });
    assert.deepEqual([refused.status, refused.json.code], [400, 'invalid_request'], url);
    assert.match(JSON.stringify(refused.json.fields), /"path":"url"/);
  }
});

test('a user whose names take long to resolve holds up their own settings alone', async (t) => {
  let waiting = 0;
  let answer = (): void => {};
  const resolved = new Promise<string[]>((resolve) => {
    answer = () => resolve(['127.0.0.1']);
  });
  const sender = webhookSender({
    allowed: here,
    resolve: (name) => {
      if (name !== 'slow.example.com') return Promise.resolve(['127.0.0.1']);
      waiting++;
      return resolved;
    },
  });
  const notify = await opened(t, { deliveries: { sealKey: SEAL_KEY, sender, mailer: undefined } });
  const [ann, ben] = [await notify.person('ann', LONG), await notify.person('ben', LONG)];
  const slow = [1, 2].map((n) => notify.request(ann, 'POST', HOOKS, { url: `https://slow.example.com/${n}` }));
  await until(() => waiting === 2);
  const third = await notify.request(ann, 'POST', HOOKS, { url: 'https://quick.example.com/' });
  assert.deepEqual([third.status, third.json.code], [429, 'too_many_changes']);
  assert.equal((await notify.request(ben, 'POST', HOOKS, { url: 'https://quick.example.com/' })).status, 201);
  answer();
  assert.deepEqual(
    (await Promise.all(slow)).map(({ status }) => status),
    [201, 201],
  );
  assert.equal((await notify.request(ann, 'POST', HOOKS, { url: 'https://quick.example.com/' })).status, 201);
});

test('without a key nothing is sent, and adding a webhook says so', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann', LONG);
  const refused = await notify.request(ann, 'POST', HOOKS, { url: 'https://example.com/' });
  assert.deepEqual([refused.status, refused.json.code], [503, 'not_configured']);
  assert.deepEqual((await notify.get(ann, HOOKS)).json.list, []);
});

test('each change is in the audit trail, without address or secret', async (t) => {
  const notify = await opened(t);
  const receiver = await startReceiver(t);
  const ann = await notify.person('ann', LONG);
  const { id, secret } = await notify.hook(ann, `${receiver.url}?key=hidden`);
  await notify.request(ann, 'PATCH', `${HOOKS}/${id}`, { categories: ['a'] });
  await notify.request(ann, 'POST', `${HOOKS}/${id}/rotate`);
  await notify.request(ann, 'DELETE', `${HOOKS}/${id}`);
  const row = z.object({ action: z.string(), target: z.string(), detail: z.unknown() });
  const trail = await notify.outside.many(row, 'select action, target, detail from audit_log order by id');
  assert.deepEqual(
    trail.map(({ action }) => action),
    ['webhook.create', 'webhook.update', 'webhook.rotate', 'webhook.delete'],
  );
  assert.ok(trail.every(({ target }) => target === id));
  assert.ok(!/hidden|whsec_/.test(JSON.stringify(trail)) && secret.startsWith('whsec_'));
});
