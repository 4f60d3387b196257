/** Calls every endpoint of the authentication service over HTTP, rightly and wrongly, with secrets wherever one can stand. */

import { z } from 'zod';
import { authEndpoints } from '../../../proto/auth/endpoints.ts';
import { tokenDirectory } from '../../../storage/auth/token-directory.ts';
import { StorageError } from '../../../storage/errors.ts';
import { api } from '../../../transports/api/api.ts';
import { OpenStreams } from '../../../transports/api/open-streams.ts';
import { listen } from '../../../transports/http/index.ts';
import { type AuthUnderTest, PASSWORD } from '../service/auth.ts';
import { SECRET } from '../service/node.ts';

const NEW_PASSWORD = 'Z9-new-password-Z9';
const WRONG_PASSWORD = 'Z9-wrong-password-Z9';
const withToken = z.object({ token: z.string() });
const withId = z.object({ id: z.string() });

/** Returns every secret that was sent or received: passwords and tokens. */
export async function exercise(auth: AuthUnderTest): Promise<string[]> {
  const secrets = [PASSWORD, NEW_PASSWORD, WRONG_PASSWORD, SECRET];
  const handlers = api({
    service: auth.service,
    authenticate: (token) => auth.prove(token),
    streams: new OpenStreams(tokenDirectory(auth.db), auth.log),
    pages: new Map(),
    log: auth.log,
  });
  const server = await listen({ host: '127.0.0.1', port: 0, ...handlers }, 'node');
  const send = async (method: string, path: string, authorization?: string, body?: unknown) => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
      method,
      headers: {
        'content-type': 'application/json',
        connection: 'close',
        ...(authorization === undefined ? {} : { authorization }),
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return text.startsWith('{') ? JSON.parse(text) : {};
  };
  const token = (answer: unknown) => {
    const found = withToken.parse(answer).token;
    secrets.push(found, ...found.replace(/^svc_/, '').split('.').slice(1));
    return found;
  };

  try {
    const logIn = async (password: string) =>
      `Bearer ${token(await send('POST', '/api/login', undefined, { username: 'ann', password }))}`;
    const ann = await logIn(PASSWORD);
    const { user_id: uid } = z.object({ user_id: z.string() }).parse(await send('GET', '/api/session', ann));
    const scopes = { [`compute.${uid}`]: ['read'] };
    const robot = token(await send('POST', '/api/tokens', ann, { name: 'robot', scopes, expires_in: '30d' }));
    const account = withId.parse(await send('POST', '/api/service-accounts', ann, { name: 'ci', scopes })).id;
    const path = `/api/service-accounts/${account}`;
    const second = token(await send('POST', `${path}/tokens`, ann, { name: 'second', expires_in: 'never' }));
    await send('PUT', `${path}/scopes`, ann, { scopes: {} });
    await send('PUT', '/api/settings/profile', ann, { display_name: 'Ann' });
    for (const current_password of [WRONG_PASSWORD, PASSWORD])
      await send('PUT', '/api/settings/password', ann, { current_password, new_password: NEW_PASSWORD });

    const basic = (name: string, password: string) => `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
    const authorizations = [
      ...[undefined, ann, `Bearer ${robot}`, `${ann}x`, `Bearer ${WRONG_PASSWORD}`, robot],
      ...[basic('ann', NEW_PASSWORD), basic('ann', WRONG_PASSWORD), basic('ci', second), basic(WRONG_PASSWORD, robot)],
    ];
    secrets.push(
      ...authorizations.flatMap((header) => (header === undefined ? [] : [header.split(' ').at(-1) ?? header])),
    );
    const bodies: unknown[] = [
      { username: 'ann', password: WRONG_PASSWORD },
      { username: WRONG_PASSWORD, password: 'x' },
      { username: 'z9-typed-where-the-name-belongs', password: 'x' },
      { current_password: WRONG_PASSWORD, new_password: 'short' },
      { name: 7, token: robot, password: NEW_PASSWORD, display_name: 7, scopes: WRONG_PASSWORD },
      `{"password": "${NEW_PASSWORD}", `,
    ];
    secrets.push('z9-typed-where-the-name-belongs');
    for (const failure of [undefined, new StorageError('internal', 'The test broke the database.')]) {
      auth.db.failure = failure;
      for (const { method, path } of authEndpoints) {
        for (const authorization of authorizations) {
          // Deletes what is named only where nothing has that name.
          const filled = path.replace(/\{\w+\}/g, encodeURIComponent(robot));
          const all = method === 'POST' || method === 'PUT' ? bodies : [undefined];
          for (const body of all)
            await send(method, `${filled}?token=${second}&password=${NEW_PASSWORD}`, authorization, body);
        }
      }
    }
    auth.db.failure = undefined;
    // What the database says of a row it refuses has the row in it, with the password's hash.
    await auth.outside.script(`alter table users add constraint broken check (display_name <> 'Broken')`);
    await send('PUT', '/api/settings/profile', ann, { display_name: 'Broken' });
    await send('DELETE', path, ann);
    return [...new Set(secrets)];
  } finally {
    auth.db.failure = undefined;
    await server.close(1000);
  }
}
