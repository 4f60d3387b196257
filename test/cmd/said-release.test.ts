/** What a container says of its release is printed on its owner's terminal, and must not act on it. */
import assert from 'node:assert/strict';
import { PassThrough, Writable } from 'node:stream';
import { test } from 'node:test';
import type { ClientTransport, TransportAnswer } from '../../client/transport.ts';
import { runAccountCommand } from '../../cmd/client/account/run.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const ID = 'abcdefghijk1';

const answer = (status: number, body: unknown): TransportAnswer => ({
  status,
  body: JSON.stringify(body),
  header: () => undefined,
});

/** A platform with one container, in which every command prints this. */
function platform(printed: string): ClientTransport {
  return {
    socketHeaders: true,
    async send({ url }) {
      const { pathname } = new URL(url);
      if (pathname.endsWith('/containers'))
        return answer(200, { containers: [{ id: ID, name: 'box', status: 'running' }] });
      return answer(404, { error: 'There is nothing here.', code: 'not_found' });
    },
    connect(_url, _headers, listener) {
      setImmediate(() => {
        listener.opened();
        const input = { received: 0, written: 0 };
        listener.text(JSON.stringify({ type: 'session', session: 's', resumable: true, cursor: 0, gap: 0, input }));
        listener.binary(Buffer.concat([Buffer.of(1), Buffer.from(printed)]));
        listener.text(JSON.stringify({ type: 'exit', code: 0 }));
      });
      return { send() {}, close() {}, waitingBytes: 0 };
    },
  };
}

/** All that `troupe rollback` tells a person. */
async function rollBack(printed: string) {
  let said = '';
  const sink = () =>
    new Writable({
      write(chunk, _encoding, done) {
        said += String(chunk);
        done();
      },
    });
  const account = { userId: 'a00000000000', username: 'ann', sessionsEpoch: 0, fingerprint: 'F', keyName: 'x' };
  const channel = {
    account: { ...account, asked: 'ann' },
    address: '192.0.2.1',
    command: 'rollback box',
    terminal: () => undefined,
    isPlain: true,
    input: new PassThrough(),
    output: sink(),
    errors: sink(),
    onEvent: () => {},
    gone: new AbortController().signal,
  };
  const onFault = (error: unknown) => assert.fail(String(error));
  const options = { domain: 'x.test', token: '', transport: platform(printed), onFault };
  const { code, ended } = runAccountCommand(channel, options);
  const exit = await code;
  await ended;
  return { exit, said };
}

test('a number is the release that runs', async () => {
  assert.deepEqual(await rollBack('12\n'), { exit: 0, said: 'box runs release 12. Its data is as it was.\n' });
});

test('anything else is refused, and nothing of it is printed', async () => {
  for (const printed of ['\x1b]52;c;ZXZpbA==\x07', '12\x1b[2J', 'all well', '', '1\n2', '9'.repeat(40)]) {
    const { exit, said } = await rollBack(printed);
    assert.notEqual(exit, 0, printed);
    assert.match(said, /^troupe: box does not say which release it runs: .* Deploy again, or look at it with `troupe/);
    assert.ok(!/\p{Cc}/u.test(said.replaceAll('\n', '')), JSON.stringify(said));
  }
});
